"""The order in which cursors are committed.

A subscription is a consumer group of the log. There may be thousands, so each round commits some.
"""

import asyncio
from itertools import islice
from math import ceil
from typing import Final

from workers.consumer.commit.cursor import Cursor

# One round commits this many groups, so that hundreds of active groups are spread over one second.
# With thousands of groups, rounds are larger.
GROUPS_PER_ROUND: Final = 64
# The number of rounds in which all groups are committed, however many there are.
ROUNDS_MAX: Final = 6


class CommitQueue:
    """The cursors that have a new position, which must be committed.

    The lock `busy` is held while a round is committed.
    """

    def __init__(self) -> None:
        # Cursors by group, in the order in which the groups got a new position. All cursors of one
        # group are committed with one request.
        self._dirty: dict[str, list[Cursor]] = {}
        self._size = GROUPS_PER_ROUND
        # Cursors to commit as soon as no other commit of this queue is running.
        self._urgent: list[tuple[str, Cursor]] = []
        self.moved = asyncio.Event()
        self.busy = asyncio.Lock()

    def add(self, group: str, cursor: Cursor) -> None:
        """Commit the cursor in one of the next rounds."""
        self._dirty.setdefault(group, []).append(cursor)
        self.moved.set()

    def add_urgent(self, group: str, cursor: Cursor) -> None:
        """Commit the cursor as soon as possible: `take_urgent` returns it."""
        self._urgent.append((group, cursor))

    def take_urgent(self) -> list[tuple[str, Cursor]]:
        """Remove and return the urgent cursors with their groups."""
        urgent, self._urgent = self._urgent, []
        return urgent

    def next_round(self) -> list[tuple[str, Cursor]]:
        """Remove and return the cursors of the next round with their groups."""
        self._size = max(self._size, ceil(len(self._dirty) / ROUNDS_MAX))
        groups = list(islice(self._dirty, self._size))
        round_ = [(group, cursor) for group in groups for cursor in self._dirty.pop(group)]
        if not self._dirty:
            self._size = GROUPS_PER_ROUND
            self.moved.clear()
        return round_
