"""Commits a cursor again if an earlier commit may still replace its position in the log."""

import asyncio
from datetime import timedelta

from workers.consumer.commit.cursor import Cursor


class CommitsInDoubt:
    """Cursors with an earlier commit that the log may still apply, even after newer commits.

    The earlier commit was not answered by the log, or it is from the partition's last owner. Each
    cursor is committed once more, after a time between `after` and twice `after`. Otherwise the log
    could keep an old position of an idle cursor until its next message.
    """

    def __init__(self, after: timedelta) -> None:
        self._after = after
        # The cursors that were added in the current period, and those that were added in the period
        # before. A period takes the time `after`. Both are dictionaries, because a dictionary keeps
        # its order.
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
                # Leave out closing cursors. `Committer.finish` commits them for the last time. A
                # later commit would be wrong, because another worker may own the partition.
                if not cursor.closing:
                    cursor.renew()
            self._earlier, self._recent = self._recent, {}
            if not self._earlier:
                self._any.clear()
