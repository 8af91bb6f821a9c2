"""Writes Angelia's own streams to the database, each record exactly once.

The stream's position is stored in the same transaction as the records. So after any crash the next
recorder continues after the last record in the database.
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
# The maximum number of chunks, each about a megabyte at most, that were read and are not recorded
# yet. At this number, reading stops until some of them are recorded.
CHUNKS_MAX: Final = 16

_log = structlog.get_logger()


RowT = TypeVar("RowT")
StoredT_contra = TypeVar("StoredT_contra", contravariant=True)


class StreamStore(Protocol[StoredT_contra]):
    """The store of a stream. Its methods may raise UnavailableError."""

    async def positions(self) -> Mapping[Partition, int]:
        """Return the next offset to record for each partition of the stream."""

    async def record(
        self, rows: Sequence[StoredT_contra], stream: Partition, next_offset: int, *, start: int
    ) -> int | None:
        """Store `rows` and the position in one transaction. Existing rows stay unchanged.

        `start` is the offset from which the rows were read. Nothing is stored if the store's
        position is lower: the store has lost what it had stored.

        Returns:
            None if the rows were stored; otherwise the store's position.
        """


class Recorder(Generic[RowT]):
    """Stores the records of one stream, from the partitions that this worker owns.

    Args:
        tail: Reads the stream.
        store: Stores the rows.
        read: Converts a record to a row; to None if the record is foreign.
        records_max: The maximum number of records in one transaction.
        linger: How long a record waits for further records, so that one transaction stores many.
        missed: Makes a row that says how many records the log dropped before they were stored.
        retry_pause: The pause after a transaction that failed.
    """

    def __init__(
        self,
        tail: Tail,
        store: StreamStore[RowT],
        read: Callable[[Record], RowT | None],
        *,
        records_max: int = RECORDS_MAX,
        linger: timedelta = timedelta(),
        missed: Callable[[int], RowT | None] = lambda _: None,
        retry_pause: timedelta = RETRY_PAUSE,
    ) -> None:
        self._tail = tail
        self._store = store
        self._read = read
        self._missed = missed
        self._records_max = records_max
        self._owned: frozenset[Partition] = frozenset()
        # For each followed partition, the offset of the next record to store. A chunk that begins
        # above this offset is not stored. Such a chunk may have been read when this worker owned
        # the partition earlier, and to store its position would mark all records before it as
        # stored.
        self._next: dict[Partition, int] = {}
        self._linger = linger
        self._retry_pause = retry_pause
        self._changed = asyncio.Event()
        self._came: list[Chunk] = []
        self._coming = asyncio.Condition()

    def own(self, partitions: Collection[Partition]) -> None:
        """Set the partitions to read. From now on, only these partitions are read."""
        owned = frozenset(partitions)
        for partition in self._owned - owned:
            self._tail.unfollow(partition)
            self._next.pop(partition, None)
        self._owned = owned
        if owned != self._next.keys():
            self._changed.set()

    def check(self) -> None:
        """Soon look whether the store has lost what it had stored, and then store it again."""
        self._changed.set()

    async def run(self) -> None:
        """Record the owned partitions of the stream until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow_owned())
            tasks.create_task(self._read_all())
            tasks.create_task(self._record_all())

    async def _follow_owned(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            known = dict(self._next)
            positions = await self._positions()
            for partition, offset in known.items():
                if positions.get(partition, 0) < offset:
                    self._go_back(partition, positions.get(partition, 0))
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

    async def _read_all(self) -> None:
        while True:
            async with self._coming:
                await self._coming.wait_for(lambda: len(self._came) < CHUNKS_MAX)
            chunks = await self._tail.chunks()
            async with self._coming:
                self._came += chunks
                self._coming.notify_all()

    async def _record_all(self) -> None:
        while True:
            async with self._coming:
                await self._coming.wait_for(lambda: bool(self._came))
            if self._linger:
                await asyncio.sleep(self._linger.total_seconds())
            async with self._coming:
                came, self._came = self._came, []
                self._coming.notify_all()
            by_partition: dict[Partition, list[Chunk]] = {}
            for chunk in came:
                by_partition.setdefault(chunk.partition, []).append(chunk)
            for partition, chunks in by_partition.items():
                await self._record_chunks(partition, chunks)

    async def _record_chunks(self, partition: Partition, chunks: Sequence[Chunk]) -> None:
        first = 0
        for index, chunk in enumerate(chunks):
            if chunk.gap:
                await self._record_run(partition, chunks[first:index])
                await self._record_gap(partition, chunk)
                first = index + 1
        await self._record_run(partition, chunks[first:])

    async def _record_gap(self, partition: Partition, gap: Chunk) -> None:
        """Continue after a gap, where the log has dropped records because of its retention."""
        missing = gap.next_offset - self._next.get(partition, gap.next_offset)
        if gap.offset > self._next.get(partition, -1) or missing <= 0:
            return
        _log.error("stream_records_lost", stream=partition.topic, records=missing)
        row = self._missed(missing)
        rows = [] if row is None else [row]
        start = gap.next_offset - missing
        await self._store_rows(partition, rows, start=start, next_offset=gap.next_offset)

    async def _record_run(self, partition: Partition, chunks: Sequence[Chunk]) -> None:
        """Store the records of `chunks` from the next offset on. Skip records stored already."""
        start = end = self._next.get(partition, -1)
        records: list[Record] = []
        for chunk in chunks:
            if chunk.offset <= end:
                records += [record for record in chunk.records if record.offset >= end]
                # Never go back to a lower offset, because the offsets of a log that was recreated
                # may start lower.
                end = max(chunk.next_offset, end)
        size = self._records_max
        for first in range(0, len(records) - size, size):
            some = records[first : first + size]
            stop = some[-1].offset + 1
            await self._record(partition, some, start=start, next_offset=stop)
            start = stop
        last = records[max(0, len(records) - 1) // size * size :]
        if end > start:
            await self._record(partition, last, start=start, next_offset=end)

    async def _record(
        self, partition: Partition, records: Sequence[Record], *, start: int, next_offset: int
    ) -> None:
        rows: list[RowT] = []
        for record in records:
            if (row := self._read(record)) is not None:
                rows.append(row)
            # Let deliveries run after each record, because reading one record may take a
            # millisecond.
            await asyncio.sleep(0)
        await self._store_rows(partition, rows, start=start, next_offset=next_offset)

    async def _store_rows(
        self, partition: Partition, rows: Sequence[RowT], *, start: int, next_offset: int
    ) -> None:
        while partition in self._next:
            try:
                stored = await self._store.record(rows, partition, next_offset, start=start)
            except UnavailableError as exc:
                _log.warning(
                    "stream_not_recorded",
                    stream=partition.topic,
                    records=len(rows),
                    error=exc.message,
                )
                await asyncio.sleep(self._retry_pause.total_seconds())
            else:
                if stored is not None and stored < start:
                    self._go_back(partition, stored)
                else:
                    self._advance(partition, next_offset)
                return

    def _go_back(self, partition: Partition, stored: int) -> None:
        """Read the partition again from the offset `stored`.

        The store has lost its last transactions: a replica that was behind has become the server.
        """
        if partition in self._next:
            _log.warning("stream_recorded_again", stream=partition.topic, offset=stored)
            self._next[partition] = stored
            self._tail.follow(partition, stored)

    def _advance(self, partition: Partition, next_offset: int) -> None:
        # Never go back to a lower offset. While the rows were stored, the partition may have gone
        # to another worker and come back. Then this worker reads it from a later offset, and reads
        # nothing below that offset again.
        if partition in self._next:
            self._next[partition] = max(self._next[partition], next_offset)


class StreamReader(Protocol):
    """Reads partitions of a stream."""

    def own(self, partitions: Collection[Partition]) -> None:
        """Set the partitions to read. From now on, only these partitions are read."""

    def check(self) -> None:
        """Soon look whether the store has lost what it had stored, and then store it again."""


class Recorders:
    """The recorders of all streams. They work in parallel: none waits for another one's store."""

    def __init__(self, by_stream: Mapping[str, StreamReader]) -> None:
        self._by_stream = by_stream

    def own(self, partitions: Collection[Partition]) -> None:
        """Set the partitions to read. Each partition is read by the recorder of its stream."""
        for stream, recorder in self._by_stream.items():
            recorder.own([each for each in partitions if each.topic == stream])

    def check(self) -> None:
        """Soon look whether the store has lost what it had stored, and then store it again."""
        for recorder in self._by_stream.values():
            recorder.check()
