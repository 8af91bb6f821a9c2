"""Angelia's own streams into the database, each record exactly once.

The stream's position is stored in the transaction that stores the records, so whatever dies, the
next recorder goes on
behind the last record that is really there.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import Final, Generic, Protocol, TypeVar

import structlog

from app.domain.errors import UnavailableError
from app.domain.message import Partition, Record
from app.log.interface import Chunk, Tail

RETRY_PAUSE: Final = timedelta(seconds=1)
RECORDS_MAX: Final = 1_000

_log = structlog.get_logger()


RowT = TypeVar("RowT")
StoredT_contra = TypeVar("StoredT_contra", contravariant=True)


class StreamStore(Protocol[StoredT_contra]):
    """Where a stream is kept; raises UnavailableError."""

    async def positions(self) -> Mapping[Partition, int]:
        """The next offset to record of each partition of the stream."""

    async def record(
        self, rows: Sequence[StoredT_contra], stream: Partition, next_offset: int
    ) -> None:
        """Store `rows` and the position in one transaction; what is there already stays."""


class Recorder(Generic[RowT]):
    """Reads the partitions of one stream that this worker owns.

    `read` makes a row of a record, or None of one that is not of ours; at most `records_max`
    records are stored in one transaction.
    """

    def __init__(
        self,
        tail: Tail,
        store: StreamStore[RowT],
        read: Callable[[Record], RowT | None],
        *,
        records_max: int = RECORDS_MAX,
        retry_pause: timedelta = RETRY_PAUSE,
    ) -> None:
        self._tail = tail
        self._store = store
        self._read = read
        self._records_max = records_max
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
                    await self._record_chunk(chunk)

    async def _record_chunk(self, chunk: Chunk) -> None:
        records, size = chunk.records, self._records_max
        for first in range(0, len(records) - size, size):
            some = records[first : first + size]
            await self._record(chunk.partition, some, next_offset=some[-1].offset + 1)
        last = records[max(0, len(records) - 1) // size * size :]
        await self._record(chunk.partition, last, next_offset=chunk.next_offset)

    async def _record(
        self, partition: Partition, records: Sequence[Record], *, next_offset: int
    ) -> None:
        rows = [row for record in records if (row := self._read(record)) is not None]
        while partition in self._next:
            try:
                await self._store.record(rows, partition, next_offset)
            except UnavailableError as exc:
                _log.warning(
                    "stream_not_recorded",
                    stream=partition.topic,
                    records=len(rows),
                    error=exc.message,
                )
                await asyncio.sleep(self._retry_pause.total_seconds())
            else:
                self._advance(partition, next_offset)
                return

    def _advance(self, partition: Partition, next_offset: int) -> None:
        if partition in self._next:
            self._next[partition] = next_offset


class StreamReader(Protocol):
    """Who reads partitions of a stream."""

    def own(self, partitions: Collection[Partition]) -> None:
        """Read exactly these from now on."""


class Recorders:
    """The recorders by their streams: none waits for the store of another."""

    def __init__(self, by_stream: Mapping[str, StreamReader]) -> None:
        self._by_stream = by_stream

    def own(self, partitions: Collection[Partition]) -> None:
        """Read exactly these from now on, each recorder those of its stream."""
        for stream, recorder in self._by_stream.items():
            recorder.own([each for each in partitions if each.topic == stream])
