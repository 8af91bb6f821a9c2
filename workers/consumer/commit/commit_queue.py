"""The order in which cursors are committed.

Each subscription is a consumer group of the log. There may be thousands of groups, so one round
commits only some of them.
"""

import asyncio
from collections.abc import Iterable
from itertools import islice
from math import ceil
from typing import Final

from workers.consumer.commit.cursor import Cursor

# The number of consumer groups that one round commits. With this number, hundreds of active groups
# are spread over one second. With thousands of groups, rounds are larger.
GROUPS_PER_ROUND: Final = 64
# All groups are committed within this number of rounds, however many groups there are.
ROUNDS_MAX: Final = 6


class CommitQueue:
    """The cursors whose new position must be committed.

    The lock `busy` is held while the cursors of a round are committed.
    """

    def __init__(self) -> None:
        # The waiting cursors by group. The groups are in the order in which they got a new
        # position. All cursors of one group are committed with one request.
        self._dirty: dict[str, list[Cursor]] = {}
        self._size = GROUPS_PER_ROUND
        # When cursors whose commits fail may be committed again (in seconds of the event loop).
        self._paused: dict[Cursor, float] = {}
        # Urgent cursors. They are committed as soon as no other commit of this queue is running.
        self._urgent: list[tuple[str, Cursor]] = []
        self.moved = asyncio.Event()
        self.busy = asyncio.Lock()

    def add(self, group: str, cursor: Cursor) -> None:
        """Commit the cursor in one of the next rounds."""
        self._dirty.setdefault(group, []).append(cursor)
        self.moved.set()

    def pause(self, cursor: Cursor, until: float) -> None:
        """Commit the cursor, which was added, only from `until` on, or together with its group."""
        self._paused[cursor] = until

    def add_urgent(self, group: str, cursor: Cursor) -> None:
        """Add a cursor to commit as soon as possible. `take_urgent` returns the cursor."""
        self._urgent.append((group, cursor))

    def take_urgent(self) -> list[tuple[str, Cursor]]:
        """Remove the urgent cursors from the queue, and return them with their groups."""
        urgent, self._urgent = self._urgent, []
        return urgent

    def next_round(self, now: float) -> list[tuple[str, Cursor]]:
        """Remove the cursors of the next round from the queue. Return them with their groups."""
        due = (group for group, cursors in self._dirty.items() if self._is_due(cursors, now))
        self._size = max(self._size, ceil(len(self._dirty) / ROUNDS_MAX))
        groups = list(islice(due, self._size))
        round_ = [(group, cursor) for group in groups for cursor in self._dirty.pop(group)]
        for _, cursor in round_:
            self._paused.pop(cursor, None)
        if not self._dirty:
            self._size = GROUPS_PER_ROUND
            self.moved.clear()
        return round_

    def _is_due(self, cursors: Iterable[Cursor], now: float) -> bool:
        return any(self._paused.get(cursor, now) <= now for cursor in cursors)
