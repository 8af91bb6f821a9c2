"""Which cursors are committed next: a round at a time, so that thousands of groups are spread."""

import asyncio
from itertools import islice
from math import ceil
from typing import Final

from workers.consumer.commit.cursor import Cursor

# More groups than this wait for the next round, so that hundreds that move are spread over a
# second; thousands take a few rounds all the same.
GROUPS_PER_ROUND: Final = 64
ROUNDS_MAX: Final = 6


class CommitQueue:
    """Cursors that have something new to commit. `busy` is held while a round is committed."""

    def __init__(self) -> None:
        # By group, the first that moved first: a group is a request, whatever moved in it.
        self._dirty: dict[str, list[Cursor]] = {}
        self._size = GROUPS_PER_ROUND
        # To be committed as soon as nothing else of the queue is being committed.
        self._urgent: list[tuple[str, Cursor]] = []
        self.moved = asyncio.Event()
        self.busy = asyncio.Lock()

    def add(self, group: str, cursor: Cursor) -> None:
        """Have it in one of the next rounds."""
        self._dirty.setdefault(group, []).append(cursor)
        self.moved.set()

    def add_urgent(self, group: str, cursor: Cursor) -> None:
        """Have it among those that `take_urgent` takes, too."""
        self._urgent.append((group, cursor))

    def take_urgent(self) -> list[tuple[str, Cursor]]:
        """Take those that are urgent, with their groups."""
        urgent, self._urgent = self._urgent, []
        return urgent

    def next_round(self) -> list[tuple[str, Cursor]]:
        """Take the next round, with their groups."""
        self._size = max(self._size, ceil(len(self._dirty) / ROUNDS_MAX))
        groups = list(islice(self._dirty, self._size))
        round_ = [(group, cursor) for group in groups for cursor in self._dirty.pop(group)]
        if not self._dirty:
            self._size = GROUPS_PER_ROUND
            self.moved.clear()
        return round_
