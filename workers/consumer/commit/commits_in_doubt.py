"""Commits cursors again whose position in the log an earlier commit may still replace."""

import asyncio
from datetime import timedelta

from workers.consumer.commit.cursor import Cursor


class CommitsInDoubt:
    """The cursors with an earlier commit that the log may still apply, even after newer ones.

    It is a commit that the log has not answered, or one of the last owner of the partition. So the
    cursors are committed once more, after one to two `after`. Otherwise the log would keep the old
    position of an idle cursor until its next message.
    """

    def __init__(self, after: timedelta) -> None:
        self._after = after
        # The cursors that were added since the last look, and those of the time before.
        # Dictionaries, because these keep their order.
        self._recent: dict[Cursor, None] = {}
        self._earlier: dict[Cursor, None] = {}
        self._any = asyncio.Event()

    def __contains__(self, cursor: Cursor) -> bool:
        return cursor in self._recent or cursor in self._earlier

    def add(self, cursor: Cursor) -> None:
        """Commit the cursor once more later."""
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
