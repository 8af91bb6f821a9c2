"""ListOffsets requests for the ends of many partitions, and their responses, as bytes (pure).

The end of a partition is its next offset. Format: Kafka protocol guide, ListOffsets API version 1,
the oldest that current brokers support.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from app.log.kafka.protocol.wire import (
    COUNT,
    MalformedAnswerError,
    correlation_of,
    request,
    string,
    text,
)

LIST_OFFSETS: Final = (2, 1)

# The fields at the start of a request: replica, number of topics.
_HEAD: Final = struct.Struct(">ii")
# The fields of a partition in a request: partition, time.
_PART: Final = struct.Struct(">iq")
# The fields of a partition in a response: partition, error code, time, offset.
_PART_ANSWER: Final = struct.Struct(">ihqq")
_NOBODY: Final = -1
_LATEST: Final = -1

Indexes = Mapping[str, Sequence[int]]
"""Partition numbers by topic."""


class TopicEnds(NamedTuple):
    """The sum of the ends (the next offsets) of a topic's partitions.

    `failed` has the error codes of the partitions that failed.
    """

    topic: str
    total: int
    failed: Mapping[int, int]


def ends_frame(correlation: int, wanted: Indexes, *, client: str) -> bytes:
    """Return a request for the ends of the partitions in `wanted`, with its length prefix."""
    body = [_HEAD.pack(_NOBODY, len(wanted))]
    for topic, indexes in wanted.items():
        body += (string(topic), COUNT.pack(len(indexes)))
        body += [_PART.pack(index, _LATEST) for index in indexes]
    return request(LIST_OFFSETS, correlation, client=client, body=body)


def read_ends(frame: bytes) -> Sequence[TopicEnds]:
    """Return the content of a response without its length prefix.

    Raises:
        MalformedAnswerError: The response is invalid.
    """
    correlation_of(frame)
    try:
        return _topics(frame)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise MalformedAnswerError(f"the answer to a request for ends: {error}") from error


def _topics(frame: bytes) -> list[TopicEnds]:
    at = COUNT.size
    (count,) = COUNT.unpack_from(frame, at)
    at += COUNT.size
    found: list[TopicEnds] = []
    for _ in range(count):
        name, at = text(frame, at)
        (parts,) = COUNT.unpack_from(frame, at)
        at += COUNT.size
        end = at + parts * _PART_ANSWER.size
        if not at <= end <= len(frame):
            raise IndexError("partitions run over the end of the answer")
        found.append(_topic(name or "", frame[at:end]))
        at = end
    return found


def _topic(name: str, parts: bytes) -> TopicEnds:
    total, failed = 0, dict[int, int]()
    for index, error_code, _, offset in _PART_ANSWER.iter_unpack(parts):
        if error_code:
            failed[index] = error_code
        else:
            total += offset
    return TopicEnds(name, total, failed)
