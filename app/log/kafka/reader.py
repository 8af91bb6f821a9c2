"""Reads partitions by single fetches from any offset, for readers that are behind.

Also finds the bounds of partitions: their first and their next offset.
"""

import asyncio
import time
from collections.abc import Collection, Mapping
from datetime import timedelta
from functools import partial
from typing import Final

from app.domain.errors import LogUnavailableError, LogUnreadableError, TopicNotFoundError
from app.domain.message import Partition
from app.log.interface import Bounds, Chunk, LogStats
from app.log.kafka.bridge import IoThread
from app.log.kafka.client import FAILED_TRY, NO_LEADER, RETRY_S, Client, NotSentError, reason
from app.log.kafka.credentials import KafkaCredentials
from app.log.kafka.fetch_requests import OFFSET_OUT_OF_RANGE, Fetcher, chunk_of
from app.log.kafka.offsets_by_time import EARLIEST, LATEST, list_offsets
from app.log.kafka.partition_leaders import LeaderCache, ReadReplicas, ReadSource
from app.log.kafka.protocol.decoder import CorruptBatchError
from app.log.kafka.protocol.fetches import (
    NO_REPLICA,
    FetchedPart,
    FetchRequest,
    ReadOptions,
)
from app.log.kafka.protocol.wire import MalformedAnswerError

READ_TIMEOUT_S: Final = 3.0
# The time limit of a call, in seconds. An attempt that began before the limit may end a little
# later.
CALL_TIMEOUT_S: Final = 4.0
# The errors of a fetch after which a retry makes sense.
FAILED_FETCH: Final = (*FAILED_TRY, LogUnavailableError, MalformedAnswerError)

# How long one read may wait at the end of a partition before the next read is sent on the same
# connection, in milliseconds.
_TURN_MS: Final = 100


class KafkaReader:
    """Reads for all callers. Each call sends its own fetch. Topic names include the namespace."""

    def __init__(
        self,
        leader_cache: LeaderCache,
        *,
        io: IoThread,
        client: Client,
        credentials: KafkaCredentials,
        stats: LogStats,
        options: ReadOptions,
    ) -> None:
        """Create the reader.

        `client` looks up the bounds of partitions. It is used on the thread `io`.
        """
        self._leader_cache = leader_cache
        self._io = io
        self._client = client
        self._stats = stats
        self._credentials = credentials
        self._options = options
        self.replicas = ReadReplicas(options.rack)
        self.fetcher = self.another_fetcher()
        # A separate connection is for reads that wait at the end of a partition, so that they do
        # not delay other reads.
        self._waiting = self.another_fetcher()

    def another_fetcher(self) -> Fetcher:
        """Return another fetcher, for long polls. The caller must close this fetcher."""
        return Fetcher(
            self._leader_cache,
            credentials=self._credentials,
            options=self._options,
            stats=self._stats,
        )

    def close(self) -> None:
        """Close the reader's connections."""
        self.fetcher.close()
        self._waiting.close()

    async def fetch(
        self, partition: Partition, offset: int, *, bytes_max: int, wait: timedelta
    ) -> Chunk:
        """Return the records from `offset` on, about `bytes_max` bytes; see `MessageLog.fetch`."""
        end = time.monotonic() + wait.total_seconds()
        read = partial(self._fetch, partition, offset, bytes_max)
        chunk = await read()
        while not chunk.gap and chunk.next_offset == offset and time.monotonic() < end:
            turn = min(_TURN_MS, max(1, int((end - time.monotonic()) * 1000)))
            chunk = await read(wait_ms=turn)
        self._stats.fetches += 1
        self._stats.fetched_bytes += chunk.size
        self._stats.fetched_records += len(chunk.records)
        return chunk

    async def gap(self, partition: Partition, offset: int) -> Chunk:
        """Return a chunk that reports a gap from `offset` to the first offset in the log.

        Raises:
            LogUnavailableError: The log still has `offset`, but the broker that was read does not
                have it.
        """
        bounds = (await self.bounds([partition])).get(partition, Bounds(0, -1))
        if bounds.start <= offset <= bounds.end:
            raise LogUnavailableError(f"a broker is behind: it does not have {offset} yet")
        return Chunk(partition, offset, bounds.start, (), 0, gap=True, log_end=bounds.end)

    async def bounds(self, partitions: Collection[Partition]) -> Mapping[Partition, Bounds]:
        """Return the first and the next offset of each partition that exists."""
        starts = await self._offsets(dict.fromkeys(partitions, EARLIEST))
        ends = await self._offsets(dict.fromkeys(starts, LATEST))
        return {each: Bounds(starts[each], end) for each, end in ends.items()}

    async def offsets_at(
        self, partitions: Collection[Partition], timestamp_ms: int
    ) -> Mapping[Partition, int]:
        """Return, for each partition, the first offset at or after that time, or its end."""
        found = await self._offsets(dict.fromkeys(partitions, timestamp_ms))
        after_all = [partition for partition, offset in found.items() if offset < 0]
        return {**found, **await self._offsets(dict.fromkeys(after_all, LATEST))}

    async def _offsets(self, wanted: Mapping[Partition, int]) -> Mapping[Partition, int]:
        if not wanted:
            return {}
        work = partial(
            list_offsets,
            self._io,
            self._client,
            wanted,
            seconds=READ_TIMEOUT_S,
            isolation_level=self._options.isolation_level,
        )
        return await self._io.run(work, seconds=CALL_TIMEOUT_S)

    async def _fetch(
        self, partition: Partition, offset: int, bytes_max: int, *, wait_ms: int = 0
    ) -> Chunk:
        """Return the response to one fetch, after retries within READ_TIMEOUT_S.

        Raises:
            TopicNotFoundError: The partition does not exist.
            LogUnreadableError: The records cannot be decoded.
            LogUnavailableError: No attempt succeeded in time, for another reason.
        """
        end = time.monotonic() + READ_TIMEOUT_S + wait_ms / 1000
        request = FetchRequest(positions={partition: offset}, bytes_max=bytes_max, wait_ms=wait_ms)
        while True:
            cause: object
            source = None
            try:
                source = self.replicas.source(partition, await self._leader(partition))
                part = await self._ask(source, partition, request)
                if source.by_rack and part.replica != NO_REPLICA:
                    self.replicas.choose(partition, part.replica)
                    continue
                if part.error_code == OFFSET_OUT_OF_RANGE and source.is_leader:
                    return await self.gap(partition, offset)
                if part.error_code == 0:
                    return await chunk_of(part, offset)
                cause = reason(part.error_code)
            except (*FAILED_FETCH, CorruptBatchError) as error:
                cause = error
            if source is not None and not source.is_leader:
                self.replicas.avoid([partition])
            self._leader_cache.forget([partition.topic])
            await paused(end, cause)

    async def _ask(
        self, source: ReadSource, partition: Partition, request: FetchRequest
    ) -> FetchedPart:
        """Request records from a broker. Return the response for the partition.

        Raises:
            NotSentError: There is no connection.
            LogUnavailableError: There was no response in time.
            MalformedAnswerError: The response is invalid, or does not have the partition.
        """
        fetcher = self._waiting if request.wait_ms else self.fetcher
        answer = await fetcher.fetch(source, request, patience_s=READ_TIMEOUT_S)
        if not answer.parts:
            raise MalformedAnswerError(f"{partition} is left unanswered")
        return answer.parts[0]

    async def _leader(self, partition: Partition) -> int:
        topic, index = partition
        leaders = (await self._leader_cache.leaders([topic])).get(topic, {})
        if index not in leaders:
            # Look up the topic again, because the cached leaders may be older than the partition.
            self._leader_cache.forget([topic])
            leaders = (await self._leader_cache.leaders([topic])).get(topic, {})
        if index not in leaders:
            message = f"Kafka has no partition {index} of {topic}"
            raise TopicNotFoundError(message)
        if leaders[index] == NO_LEADER:
            message = f"partition {index} of {topic} has no leader"
            raise NotSentError(message)
        return leaders[index]


async def paused(end: float, cause: object) -> None:
    """Wait before the next attempt, if there is time for another attempt.

    `end` is a time of the monotonic clock.

    Raises:
        LogUnreadableError: No time is left, and `cause` is that bytes cannot be decoded.
        LogUnavailableError: No time is left; the error names `cause`.
    """
    if time.monotonic() + RETRY_S >= end:
        if isinstance(cause, CorruptBatchError):
            raise LogUnreadableError(str(cause)) from cause
        message = f"Kafka did not answer in time: {cause}"
        raise LogUnavailableError(message)
    await asyncio.sleep(RETRY_S)
