"""Catch-up reads: plain fetches from any offset, and where partitions begin and end."""

import time
from collections.abc import Collection, Mapping
from datetime import timedelta
from functools import partial
from typing import Final

from app.domain.errors import TopicNotFoundError
from app.domain.message import Partition
from app.log.interface import Bounds, Chunk, LogStats
from app.log.kafka.bridge import IoThread, Untyped
from app.log.kafka.client import (
    FAILED_TRY,
    NO_LEADER,
    Client,
    Deadline,
    NotSentError,
    reason,
)
from app.log.kafka.decoding import CorruptBatchError, decode
from app.log.kafka.fetching import (
    EARLIEST,
    LATEST,
    OFFSET_OUT_OF_RANGE,
    answers,
    fetch_request,
    list_offsets,
)

READ_TIMEOUT_S: Final = 3.0
# A try that began in time may take a little longer.
CALL_TIMEOUT_S: Final = 4.0

# Waiting reads share a connection and take turns on it; a short turn keeps each of them lively.
_TURN_MS: Final = 100


class Reader:
    """Reads for anybody, each call for itself. Takes and gives names with the prefix."""

    def __init__(self, io: IoThread, client: Client, *, waiting: Client, stats: LogStats) -> None:
        """`waiting` is for reads that wait at the end, so that they hold no other up."""
        self._io = io
        self._client = client
        self._waiting = waiting
        self._stats = stats

    async def fetch(
        self, partition: Partition, offset: int, *, bytes_max: int, wait: timedelta
    ) -> Chunk:
        """As `MessageLog.fetch`."""
        end = time.monotonic() + wait.total_seconds()
        read = partial(self._fetch, partition, offset, bytes_max)
        chunk = await self._io.run(read, seconds=CALL_TIMEOUT_S)
        while not chunk.gap and chunk.next_offset == offset and time.monotonic() < end:
            turn = min(_TURN_MS, max(1, int((end - time.monotonic()) * 1000)))
            chunk = await self._io.run(partial(read, wait_ms=turn), seconds=CALL_TIMEOUT_S)
        self._stats.fetches += 1
        self._stats.fetched_bytes += chunk.size
        self._stats.fetched_records += len(chunk.records)
        return chunk

    async def bounds(self, partitions: Collection[Partition]) -> Mapping[Partition, Bounds]:
        """As `MessageLog.bounds`."""
        starts = await self._offsets(dict.fromkeys(partitions, EARLIEST))
        ends = await self._offsets(dict.fromkeys(starts, LATEST))
        return {each: Bounds(starts[each], end) for each, end in ends.items()}

    async def offsets_at(
        self, partitions: Collection[Partition], timestamp_ms: int
    ) -> Mapping[Partition, int]:
        """As `MessageLog.offsets_at`."""
        found = await self._offsets(dict.fromkeys(partitions, timestamp_ms))
        after_all = [partition for partition, offset in found.items() if offset < 0]
        return {**found, **await self._offsets(dict.fromkeys(after_all, LATEST))}

    async def _offsets(self, wanted: Mapping[Partition, int]) -> Mapping[Partition, int]:
        if not wanted:
            return {}
        work = partial(list_offsets, self._io, self._client, wanted, seconds=READ_TIMEOUT_S)
        return await self._io.run(work, seconds=CALL_TIMEOUT_S)

    async def _fetch(
        self, partition: Partition, offset: int, bytes_max: int, *, wait_ms: int = 0
    ) -> Chunk:
        """On the I/O thread: one answered fetch, with retries within READ_TIMEOUT_S."""
        deadline = Deadline(self._io, READ_TIMEOUT_S + wait_ms / 1000)
        client = self._waiting if wait_ms else self._client
        while True:
            cause: object
            try:
                request = fetch_request({partition: offset}, bytes_max=bytes_max, wait_ms=wait_ms)
                part = await _ask(client, partition, request)
                if part.error_code == OFFSET_OUT_OF_RANGE:
                    return await gap(self._io, client, partition, offset=offset)
                if part.error_code == 0:
                    return chunk_of(partition, offset, part.records)
                cause = reason(part.error_code)
            except (*FAILED_TRY, CorruptBatchError) as error:
                cause = error
            client.forget([partition.topic])
            await deadline.pause(cause)


async def _ask(client: Client, partition: Partition, request: Untyped) -> Untyped:
    """The partition's part of the answer of its leader; TopicNotFoundError, or a FAILED_TRY."""
    topic = partition.topic
    leaders = (await client.leaders([topic])).get(topic, {})
    if partition.index not in leaders:
        # What is kept may be from before the partition was added.
        leaders = (await client.refresh([topic])).get(topic, {})
    if partition.index not in leaders:
        message = f"Kafka has no partition {partition.index} of {topic}"
        raise TopicNotFoundError(message)
    node = leaders[partition.index]
    if node == NO_LEADER:
        message = f"partition {partition.index} of {topic} has no leader"
        raise NotSentError(message)
    response = await client.send(node, request)
    return next(part for _, part in answers(response))


def chunk_of(partition: Partition, offset: int, records: Untyped) -> Chunk:
    """The chunk in a fetch answer's bytes; CorruptBatchError."""
    raw = bytes(records or b"")
    decoded = decode(raw, offset)
    return Chunk(partition, offset, decoded.next_offset, decoded.records, len(raw))


async def gap(io: IoThread, client: Client, partition: Partition, *, offset: int) -> Chunk:
    """The chunk that says that `offset` is gone, and where the log starts now."""
    starts = await list_offsets(io, client, {partition: EARLIEST}, seconds=READ_TIMEOUT_S)
    start = starts.get(partition, 0)
    return Chunk(partition, offset, start, (), 0, gap=True)
