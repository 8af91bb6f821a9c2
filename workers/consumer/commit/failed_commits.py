"""Commits cursors once more, some seconds after a commit of theirs has failed."""

import asyncio
from datetime import timedelta

from workers.consumer.commit.cursor import Cursor


class FailedCommits:
    """The cursors with a failed commit. They are committed once more, after one to two `after`.

    The log may still apply a commit that it did not answer, even after newer commits. Without this,
    the log would keep that old position of an idle cursor until its next message.
    """

    def __init__(self, after: timedelta) -> None:
        self._after = after
        # The cursors with a commit that failed since the last look, and those of the time before.
        # Dictionaries, because these keep their order.
        self._recent: dict[Cursor, None] = {}
        self._earlier: dict[Cursor, None] = {}
        self._any = asyncio.Event()

    def add(self, cursor: Cursor) -> None:
        """Commit the cursor once more later, because a commit failed, or its result is unknown."""
        self._earlier.pop(cursor, None)
        self._recent[cursor] = None
        self._any.set()

    async def run(self) -> None:
        """Commit cursors once more, until cancelled."""
        while True:
            await self._any.wait()
            await asyncio.sleep(self._after.total_seconds())
            for cursor in self._earlier:
                # Leave out closing cursors. They are committed by `Committer.finish`, and no more
                # after that: another worker may own the partition.
                if not cursor.closing:
                    cursor.renew()
            self._earlier, self._recent = self._recent, {}
            if not self._earlier:
                self._any.clear()
