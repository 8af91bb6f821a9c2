"""The reader of new records in the embedded log. It reads after notices, and polls each second."""

import asyncio
from collections.abc import Sequence
from itertools import islice
from typing import Final

import structlog

from app.domain.message import Partition
from app.log.interface import Chunk, LogStats
from app.log.postgres.connection import (
    CALL_SECONDS_MAX,
    CONNECTION_ERRORS,
    Backoff,
    Connection,
    Connector,
    bounded,
)
from app.log.postgres.reading import PostgresReader
from app.log.postgres.wakeups import Appended, Missed, Notice

logger = structlog.get_logger(__name__)

# The limits of one read. With the maximum number of partitions, a read has at most 16 MiB.
PARTITIONS_PER_READ_MAX: Final = 64
BYTES_PER_PARTITION_MAX: Final = 256 * 1024
_POLL_SECONDS: Final = 1.0


class PostgresTail:
    """Follows partitions on a separate connection.

    The attribute `_news` has the partitions that may have new records, in the order of their
    notices.
    """

    def __init__(self, connector: Connector, reader: PostgresReader, stats: LogStats) -> None:
        self._connector = connector
        self._reader = reader
        self._stats = stats
        self._connection: Connection | None = None
        self._positions: dict[Partition, int] = {}
        self._news: dict[Partition, None] = {}
        self._wake = asyncio.Event()
        # Whether to replace the connection by a new one, because another server may be the primary
        # now.
        self._is_old = False
        self._polled_at = asyncio.get_running_loop().time()

    def follow(self, partition: Partition, offset: int) -> None:
        """Read `partition` from `offset` on."""
        self._positions[partition] = offset
        self._has_news(partition)

    def unfollow(self, partition: Partition) -> None:
        """Stop reading `partition`."""
        self._positions.pop(partition, None)
        self._news.pop(partition, None)

    async def chunks(self) -> Sequence[Chunk]:
        """Wait until there is at least one chunk, without a time limit. Return the chunks."""
        backoff = Backoff()
        while True:
            try:
                if chunks := await self._next():
                    return chunks
                backoff.reset()
            except CONNECTION_ERRORS as error:
                logger.warning("log_tail_failed", error=str(error))
                await self.close()
                await backoff.wait()

    def receive(self, notice: Notice) -> None:
        """Remember that the partition of a notice may have new records."""
        match notice:
            case Appended(partition, end):
                # Read the partition also if its end is below the position of this reader. In this
                # case the topic was deleted and created again.
                if self._positions.get(partition, end) != end:
                    self._has_news(partition)
            case Missed():
                self._polled_at = 0.0
                self._is_old = True
                self._wake.set()
            case _:
                pass

    async def close(self) -> None:
        """Close the connection. The next read opens another one."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            await connection.close()

    def _has_news(self, partition: Partition) -> None:
        self._news[partition] = None
        self._wake.set()

    async def _next(self) -> list[Chunk]:
        """Read the partitions that may have new records, and return their chunks.

        If there are no such partitions, wait for a notice or the next poll, and return nothing.
        """
        self._wake.clear()
        if self._is_old:
            self._is_old = False
            await self.close()
        due_at = self._polled_at + _POLL_SECONDS
        if asyncio.get_running_loop().time() >= due_at:
            await self._poll()
        if not self._news:
            await self._woken(due_at)
            return []
        return await self._read(list(islice(self._news, PARTITIONS_PER_READ_MAX)))

    async def _woken(self, due_at: float) -> None:
        try:
            async with asyncio.timeout_at(due_at):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _poll(self) -> None:
        """Find the partitions with records that were not read yet, even without a notice."""
        if self._positions:
            connection = await self._connected()
            with bounded(connection, CALL_SECONDS_MAX):
                found = await self._reader.bounds(connection, list(self._positions))
            for partition, bounds in found.items():
                if self._positions.get(partition, bounds.end) != bounds.end:
                    self._has_news(partition)
        self._polled_at = asyncio.get_running_loop().time()

    async def _read(self, partitions: Sequence[Partition]) -> list[Chunk]:
        requested = {partition: self._positions[partition] for partition in partitions}
        for partition in partitions:
            del self._news[partition]
        try:
            connection = await self._connected()
            with bounded(connection, CALL_SECONDS_MAX):
                read = await self._reader.chunks(connection, requested, BYTES_PER_PARTITION_MAX)
        except BaseException:
            for partition in self._positions.keys() & requested.keys():
                self._has_news(partition)
            raise
        return [chunk for chunk, end in read if self._accept(chunk, end)]

    def _accept(self, chunk: Chunk, end: int) -> bool:
        """Move the position of a partition behind `chunk`. Return whether the position was moved.

        The position stays if the chunk is empty. It also stays if the partition was unfollowed, or
        followed from another offset, during the read.
        """
        if self._positions.get(chunk.partition) != chunk.offset:
            return False
        if not (chunk.records or chunk.gap):
            return False
        self._positions[chunk.partition] = chunk.next_offset
        if chunk.next_offset != end:
            self._has_news(chunk.partition)
        self._stats.fetches += 1
        self._stats.fetched_records += len(chunk.records)
        self._stats.fetched_bytes += chunk.size
        return True

    async def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = await self._connector.open("tail")
        return self._connection
