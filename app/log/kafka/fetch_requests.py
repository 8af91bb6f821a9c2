"""Sends fetch requests from the event loop. Each `ReadSource` has a separate connection.

So a long poll to one `ReadSource` does not delay another. The connections run on the event loop and
not on another thread. For a single message, a switch to another thread and back would take longer
than all other work of reading.
"""

import asyncio
import math
from datetime import timedelta
from typing import Final

import structlog

from app.log.interface import Chunk, LogStats
from app.log.kafka.caller import Callers
from app.log.kafka.credentials import KafkaCredentials
from app.log.kafka.partition_leaders import LeaderCache, ReadSource
from app.log.kafka.protocol.decoder import contents, decode, is_one_plain
from app.log.kafka.protocol.fetches import (
    FetchAnswer,
    FetchedPart,
    FetchRequest,
    ReadOptions,
    fetch_frame,
    read_fetch,
)
from app.log.kafka.throttle import Throttle

OFFSET_OUT_OF_RANGE: Final = 1

# How long this process waits for a response, in addition to the time for which the broker may wait
# for records.
_ANSWER_TIMEOUT: Final = timedelta(seconds=3)
_CLIENT: Final = "angelia-reading"
# The largest size, in bytes, of a compressed response that is decoded on the event loop. Larger
# responses would delay all deliveries, so a thread decodes them. For small responses, a thread
# would be slower, because it waits for the interpreter's lock and for a free core.
_PACKED_BYTES_MAX: Final = 32 * 1024
# The largest size, in bytes, of an uncompressed response that is decoded on the event loop.
_PLAIN_BYTES_MAX: Final = 512 * 1024
# The maximum number of records of a response that is decoded on the event loop.
_RECORDS_MAX: Final = 300
# The largest size, in bytes, that a response may have after decompression on the event loop. If it
# becomes larger, decompression starts again on a thread.
_DECOMPRESSED_MAX: Final = 1 << 20

_log = structlog.get_logger()


class Fetcher:
    """Sends fetch requests over its own connections.

    A broker answers the requests of one connection in order, so a long poll needs a connection of
    its own. There may be several long polls to a broker, one for each `ReadSource`.
    """

    def __init__(
        self,
        leader_cache: LeaderCache,
        *,
        credentials: KafkaCredentials,
        options: ReadOptions,
        stats: LogStats,
    ) -> None:
        self._stats = stats
        self._throttles: dict[int, Throttle] = {}
        self._by_rack = options
        self._by_leader = options._replace(rack="")
        self._callers = Callers(
            leader_cache.address, credentials=credentials, answer_timeout=_ANSWER_TIMEOUT
        )

    @property
    def closed(self) -> bool:
        """Whether the fetcher was closed."""
        return self._callers.closed

    async def fetch(
        self, source: ReadSource, request: FetchRequest, *, patience_s: float = math.inf
    ) -> FetchAnswer:
        """Return the broker's response. The request is sent as soon as the broker's quota allows.

        Raises:
            NotSentError: There is no connection.
            LogUnavailableError: There was no response, or the broker asked for a pause of
                `patience_s` or more.
            MalformedAnswerError: The response is invalid.
        """
        node, options = source.node, self._by_rack if source.by_rack else self._by_leader
        # If the broker is read as the leader, let it refuse partitions that it no longer leads. As
        # a follower, it might have fewer records than the leader.
        leader_only = source.is_leader and not source.by_rack
        throttle = self._throttles.setdefault(node, Throttle(node, self._stats))
        await throttle.over(patience_s)
        frame = await self._callers.of(node, source).ask(
            lambda correlation: fetch_frame(
                correlation, request, options, client=_CLIENT, leader_only=leader_only
            )
        )
        if not source.is_leader:
            self._stats.follower_fetches += 1
        answer = read_fetch(frame, leader_only=leader_only)
        throttle.note(answer.throttle_ms)
        return answer

    def close(self) -> None:
        """Close all connections; waiting callers get an error."""
        self._callers.close()


async def chunk_of(part: FetchedPart, offset: int) -> Chunk:
    """Decode the records of one partition in a response. Return the records from `offset` on.

    Raises:
        CorruptBatchError: The partition's bytes are invalid.
    """
    partition, _, records, aborted, _ = part
    decoded = None
    if _is_quick(records):
        decoded = decode(records, offset, aborted, decompressed_max=_DECOMPRESSED_MAX)
    if decoded is None or decoded.cut:
        decoded = await asyncio.to_thread(decode, records, offset, aborted)
    if decoded.passed_over is not None:
        _log.error("kafka_batch_too_large", partition=partition, offset=decoded.passed_over)
    return Chunk(partition, offset, decoded.next_offset, decoded.records, decoded.size)


def _is_quick(records: bytes) -> bool:
    size = len(records)
    if size <= _PACKED_BYTES_MAX and is_one_plain(records):
        return True
    content = contents(records) if size <= _PLAIN_BYTES_MAX else None
    if content is None:
        return False
    little, few = size <= _PACKED_BYTES_MAX, content.records <= _RECORDS_MAX
    return (little and few) if content.packed else (little or few)
