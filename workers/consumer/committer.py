"""Commits cursors soon after they moved: many in a request, one round at a time."""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from itertools import islice
from math import ceil
from typing import Final

import structlog

from app.domain.commit import Progress
from app.domain.errors import UnavailableError
from app.domain.message import Partition
from app.log.interface import Committed, MessageLog
from workers.consumer.cursor import Cursor

# A round starts so long after the one before it began; with its own duration a completion is
# committed within 250 ms.
COMMIT_INTERVAL: Final = timedelta(milliseconds=150)
# More groups than this wait for the next round, so that hundreds that move are spread over a
# second; thousands take a few rounds all the same.
GROUPS_PER_ROUND: Final = 64
ROUNDS_MAX: Final = 6

_log = structlog.get_logger()


class Committer:
    """The only one who commits positions."""

    def __init__(self, log: MessageLog) -> None:
        self._log = log
        # By group, the first that moved first: a group is a request, whatever moved in it.
        self._dirty: dict[str, list[Cursor]] = {}
        self._size = GROUPS_PER_ROUND
        self._moved = asyncio.Event()
        self._busy = asyncio.Lock()

    def moved(self, group: str, cursor: Cursor) -> None:
        """`cursor` of `group` has something new to commit."""
        self._dirty.setdefault(group, []).append(cursor)
        self._moved.set()

    async def run(self) -> None:
        """Commit until cancelled."""
        while True:
            await self._moved.wait()
            await asyncio.sleep(COMMIT_INTERVAL.total_seconds())
            await self.flush()

    async def flush(self) -> None:
        """Commit what has moved, at most one round of it."""
        async with self._busy:
            await self._commit(self._next_round())
            if not self._dirty:
                self._moved.clear()

    def _next_round(self) -> list[tuple[str, Cursor]]:
        self._size = max(self._size, ceil(len(self._dirty) / ROUNDS_MAX))
        groups = list(islice(self._dirty, self._size))
        round_ = [(group, cursor) for group in groups for cursor in self._dirty.pop(group)]
        if not self._dirty:
            self._size = GROUPS_PER_ROUND
        return round_

    async def finish(self, cursors: Collection[tuple[str, Cursor]], deadline: timedelta) -> bool:
        """Commit these for the last time, trying until `deadline`; whether all are committed."""
        try:
            async with asyncio.timeout(deadline.total_seconds()):
                return await self._commit_all(cursors)
        except TimeoutError:
            return False

    async def _commit_all(self, cursors: Collection[tuple[str, Cursor]]) -> bool:
        left = list(cursors)
        while True:
            async with self._busy:
                await self._commit(left)
            left = [(group, c) for group, c in left if c.dirty and not c.abandoned]
            if not left:
                return True
            await asyncio.sleep(COMMIT_INTERVAL.total_seconds())

    async def _commit(self, cursors: Iterable[tuple[str, Cursor]]) -> None:
        moved = [(group, c) for group, c in cursors if c.dirty and not c.abandoned]
        written = {(group, c.partition): (c, c.commit_begins()) for group, c in moved}
        failed = await self._write({key: progress for key, (_, progress) in written.items()})
        for (group, partition), (cursor, progress) in written.items():
            reason = failed.get((group, partition))
            if reason is None:
                cursor.commit_done(progress)
            else:
                _log.warning("commit_failed", group=group, partition=partition, error=reason)
                cursor.commit_failed()

    async def _write(
        self, written: Mapping[tuple[str, Partition], Progress]
    ) -> Mapping[tuple[str, Partition], str]:
        offsets: dict[str, dict[Partition, Committed]] = {}
        for (group, partition), progress in written.items():
            committed = Committed(progress.offset, progress.metadata())
            offsets.setdefault(group, {})[partition] = committed
        try:
            return await self._log.commit(offsets) if offsets else {}
        except UnavailableError as exc:
            return dict.fromkeys(written, exc.message)
