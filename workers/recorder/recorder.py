"""The undelivered stream into the database, each record exactly once.

The stream's position is stored in the transaction that stores the records, so whatever dies, the
next recorder goes on
behind the last record that is really there.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Final, Protocol

import structlog

from app.domain.errors import UnavailableError
from app.domain.message import Partition
from app.domain.undelivered import Undelivered, from_record
from app.log.interface import Chunk, Tail

RETRY_PAUSE: Final = timedelta(seconds=1)

_log = structlog.get_logger()


class UndeliveredStore(Protocol):
    """Where undelivered messages are kept; raises UnavailableError."""

    async def positions(self) -> Mapping[Partition, int]:
        """The next offset to record of each partition of the stream."""

    async def record(
        self, rows: Sequence[Undelivered], stream: Partition, next_offset: int
    ) -> None:
        """Store `rows` and the position in one transaction; what is there already stays."""


class Recorder:
    """Reads the partitions of the stream that this worker owns."""

    def __init__(
        self, tail: Tail, store: UndeliveredStore, *, retry_pause: timedelta = RETRY_PAUSE
    ) -> None:
        self._tail = tail
        self._store = store
        self._owned: frozenset[Partition] = frozenset()
        # What is recorded next of each followed partition. Only that may be: a chunk from further
        # on, left over from an earlier ownership, would have all before it count as recorded.
        self._next: dict[Partition, int] = {}
        self._retry_pause = retry_pause
        self._changed = asyncio.Event()

    def own(self, partitions: Collection[Partition]) -> None:
        """Read exactly these from now on."""
        owned = frozenset(partitions)
        for partition in self._owned - owned:
            self._tail.unfollow(partition)
            self._next.pop(partition, None)
        self._owned = owned
        if owned != self._next.keys():
            self._changed.set()

    async def run(self) -> None:
        """Record until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow_owned())
            tasks.create_task(self._record_all())

    async def _follow_owned(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            positions = await self._positions()
            for partition in self._owned - self._next.keys():
                self._next[partition] = positions.get(partition, 0)
                self._tail.follow(partition, self._next[partition])

    async def _positions(self) -> Mapping[Partition, int]:
        while True:
            try:
                return await self._store.positions()
            except UnavailableError as exc:
                _log.warning("recorder_positions_unavailable", error=exc.message)
                await asyncio.sleep(self._retry_pause.total_seconds())

    async def _record_all(self) -> None:
        while True:
            for chunk in await self._tail.chunks():
                if chunk.offset <= self._next.get(chunk.partition, -1):
                    await self._record(chunk)

    async def _record(self, chunk: Chunk) -> None:
        rows = [row for record in chunk.records if (row := from_record(record)) is not None]
        while chunk.partition in self._next:
            try:
                await self._store.record(rows, chunk.partition, chunk.next_offset)
            except UnavailableError as exc:
                _log.warning("undelivered_not_recorded", messages=len(rows), error=exc.message)
                await asyncio.sleep(self._retry_pause.total_seconds())
            else:
                self._advance(chunk)
                return

    def _advance(self, chunk: Chunk) -> None:
        if chunk.partition in self._next:
            self._next[chunk.partition] = chunk.next_offset
