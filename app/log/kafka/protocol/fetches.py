"""Fetch requests and their responses as bytes (pure).

Format: Kafka protocol guide, Fetch API version 11, which brokers from 2.3 on support. Sessions
follow KIP-227. Version 10 has no racks (KIP-392). So only the leader of a partition answers a
request of version 10.
"""

import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from app.domain.message import Partition
from app.log.kafka.protocol.wire import (
    COUNT,
    MalformedAnswerError,
    by_topic,
    correlation_of,
    request,
    string,
    text,
)

FETCH: Final = (1, 11)
LEADER_FETCH: Final = (1, 10)
NO_SESSION: Final = (0, -1)
NO_REPLICA: Final = -1
FETCH_BYTES_MAX: Final = 16 * 1024 * 1024

# The fields at the start of a request: replica, wait, minimum and maximum bytes, isolation level,
# session id and epoch, number of topics.
_HEAD: Final = struct.Struct(">iiiibiii")
# The fields of a partition in a request: partition, leader epoch, offset, start of the log, maximum
# bytes.
_PART: Final = struct.Struct(">iiqqi")
# The fields at the start of a response: correlation id, throttle time, error code, session id,
# number of topics.
_ANSWER: Final = struct.Struct(">iihii")
# The fields of a partition in a response: partition, error code, high watermark, last stable
# offset, start of the log, number of transactions.
_PART_ANSWER: Final = struct.Struct(">ihqqqi")
# The fields of an aborted transaction: producer, first offset.
_ABORTED: Final = struct.Struct(">qq")
# A field of a partition in a response. It names the replica from which to read instead of the
# leader.
_REPLICA: Final = struct.Struct(">i")
_NOBODY: Final = -1
_UNKNOWN: Final = -1
_ANYTHING: Final = 1
# The isolation levels of a fetch request.
_READ_UNCOMMITTED: Final = 0
_READ_COMMITTED: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest:
    """One fetch request.

    `bytes_max` is the limit for each partition. `session` has the id and the epoch of the fetch
    session. The partitions in `forgotten` are removed from the session.
    """

    positions: Mapping[Partition, int]
    bytes_max: int
    wait_ms: int
    session: tuple[int, int] = NO_SESSION
    forgotten: Collection[Partition] = ()


class ReadOptions(NamedTuple):
    """The options that are the same in all fetches.

    With `committed_only`, records of open and aborted transactions are left out. With a `rack`, a
    leader may name a replica that is nearer to this rack.
    """

    committed_only: bool = True
    rack: str = ""

    @property
    def isolation_level(self) -> int:
        """The isolation level as requests encode it."""
        return _READ_COMMITTED if self.committed_only else _READ_UNCOMMITTED


class AbortedTransaction(NamedTuple):
    """An aborted transaction.

    The producer's records from `first_offset` on are not committed. They end at the producer's next
    control record.
    """

    producer_id: int
    first_offset: int


class FetchedPart(NamedTuple):
    """The response for one partition. With `error_code` 0 it has whole record batches, or none.

    If only committed records were requested, `aborted` has the transactions to which these batches
    may belong. If the leader names another `replica` to read, there are no records.
    """

    partition: Partition
    error_code: int
    records: bytes
    aborted: Sequence[AbortedTransaction] = ()
    replica: int = NO_REPLICA


class FetchAnswer(NamedTuple):
    """A response to a fetch. After it, the broker accepts no requests for `throttle_ms`.

    With a session, the response has only partitions that changed since the last response.
    """

    error_code: int
    session_id: int
    parts: list[FetchedPart]
    throttle_ms: int = 0


def fetch_frame(
    correlation: int,
    fetch: FetchRequest,
    options: ReadOptions,
    *,
    client: str,
    leader_only: bool = False,
) -> bytes:
    """Return the request with its length prefix.

    With `leader_only`, a broker refuses partitions that it does not lead.
    """
    topics = by_topic(fetch.positions)
    limits = (fetch.wait_ms, _ANYTHING, FETCH_BYTES_MAX, options.isolation_level)
    body = [_HEAD.pack(_NOBODY, *limits, *fetch.session, len(topics))]
    for topic, indexes in topics.items():
        body += (string(topic), COUNT.pack(len(indexes)))
        for index in indexes:
            offset = fetch.positions[Partition(topic, index)]
            body.append(_PART.pack(index, _UNKNOWN, offset, _UNKNOWN, fetch.bytes_max))
    body += _forgotten(fetch.forgotten)
    if leader_only:
        return request(LEADER_FETCH, correlation, client=client, body=body)
    body.append(string(options.rack))
    return request(FETCH, correlation, client=client, body=body)


def _forgotten(partitions: Collection[Partition]) -> list[bytes]:
    topics = by_topic(partitions)
    body = [COUNT.pack(len(topics))]
    for topic, indexes in topics.items():
        body += (string(topic), struct.pack(f">i{len(indexes)}i", len(indexes), *indexes))
    return body


def read_fetch(frame: bytes, *, leader_only: bool = False) -> FetchAnswer:
    """Return the content of a response without its length prefix.

    `leader_only` must be as in the request.

    Raises:
        MalformedAnswerError: The response is invalid.
    """
    correlation_of(frame)
    try:
        return _answer(frame, names_replicas=not leader_only)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise MalformedAnswerError(f"the answer to a fetch request: {error}") from error


def _answer(frame: bytes, *, names_replicas: bool) -> FetchAnswer:
    _, throttle_ms, error_code, session_id, topics = _ANSWER.unpack_from(frame)
    at = _ANSWER.size
    parts: list[FetchedPart] = []
    for _ in range(topics):
        name, at = text(frame, at)
        (count,) = COUNT.unpack_from(frame, at)
        at += COUNT.size
        for _ in range(count):
            part, at = _part(frame, at, name or "", names_replicas=names_replicas)
            parts.append(part)
    return FetchAnswer(error_code, session_id, parts, throttle_ms)


def _part(frame: bytes, at: int, topic: str, *, names_replicas: bool) -> tuple[FetchedPart, int]:
    index, error_code, _, _, _, count = _PART_ANSWER.unpack_from(frame, at)
    at += _PART_ANSWER.size
    aborted: Sequence[AbortedTransaction] = ()
    if count > 0:
        begin, at = at, at + count * _ABORTED.size
        aborted = [AbortedTransaction(*each) for each in _ABORTED.iter_unpack(frame[begin:at])]
    replica = NO_REPLICA
    if names_replicas:
        (replica,) = _REPLICA.unpack_from(frame, at)
        at += _REPLICA.size
    (length,) = COUNT.unpack_from(frame, at)
    at += COUNT.size
    end = at + max(length, 0)
    if end > len(frame):
        raise IndexError("records run over the end of the answer")
    where = Partition(topic, index)
    return FetchedPart(where, error_code, frame[at:end], aborted, replica), end
