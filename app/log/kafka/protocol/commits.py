"""Offset commits and their responses as bytes (pure).

Format: Kafka protocol guide, OffsetCommit API version 7, the last one without tagged fields.
Brokers from 2.3 on support it.
"""

import struct
from collections.abc import Mapping
from itertools import islice
from typing import Final

from app.domain.message import Partition
from app.log.interface import Committed
from app.log.kafka.protocol.wire import (
    COUNT,
    MalformedAnswerError,
    by_topic,
    correlation_of,
    request,
    string,
    text,
)

COMMIT: Final = (8, 7)

# The maximum size of a request. A broker stores its commits in one batch, and refuses batches above
# (by default) 1 MiB.
REQUEST_BYTES_MAX: Final = 512 * 1024

# This many positions always fit into one request, even with the longest metadata.
_ALWAYS_FIT: Final = 100
# The maximum size in bytes of one stored commit, without its metadata and names.
_KEPT_BYTES: Final = 128

# The values for "no member" and "no generation". A broker accepts them while the group has no
# members.
_NO_MEMBER: Final = struct.pack(">ihh", -1, 0, -1)
# The fields of a partition in a request: partition, offset, leader epoch.
_PART: Final = struct.Struct(">iqi")
_UNKNOWN_EPOCH: Final = -1
# The fields at the start of a response: correlation id, throttle time, number of topics.
_ANSWER: Final = struct.Struct(">iii")
# The fields of a partition in a response: partition, error code.
_PART_ANSWER: Final = struct.Struct(">ih")


def at_once(group: str, offsets: Mapping[Partition, Committed]) -> Mapping[Partition, Committed]:
    """Return the positions that one request can carry: as many as possible, from the first on."""
    if len(offsets) <= _ALWAYS_FIT:
        return offsets
    size = count = 0
    for partition, committed in offsets.items():
        size += len(group) + len(partition.topic) + len(committed.metadata) + _KEPT_BYTES
        if size > REQUEST_BYTES_MAX:
            break
        count += 1
    return dict(islice(offsets.items(), count))


def commit_frame(
    correlation: int, *, group: str, offsets: Mapping[Partition, Committed], client: str
) -> bytes:
    """Return the request for one group, with its length prefix."""
    topics = by_topic(offsets)
    body = [string(group), _NO_MEMBER, COUNT.pack(len(topics))]
    for topic, indexes in topics.items():
        body += (string(topic), COUNT.pack(len(indexes)))
        for index in indexes:
            committed = offsets[Partition(topic, index)]
            part = _PART.pack(index, committed.offset, _UNKNOWN_EPOCH)
            body += (part, string(committed.metadata))
    return request(COMMIT, correlation, client=client, body=body)


def read_commit(frame: bytes) -> Mapping[Partition, int]:
    """Return error codes by partition (0 for none) from a response without its length prefix.

    Raises:
        MalformedAnswerError: The response is invalid.
    """
    correlation_of(frame)
    try:
        return _answer(frame)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise MalformedAnswerError(f"the answer to a commit: {error}") from error


def _answer(frame: bytes) -> Mapping[Partition, int]:
    _, _, topics = _ANSWER.unpack_from(frame)
    at = _ANSWER.size
    codes: dict[Partition, int] = {}
    for _ in range(topics):
        name, at = text(frame, at)
        (count,) = COUNT.unpack_from(frame, at)
        at += COUNT.size
        for _ in range(count):
            index, code = _PART_ANSWER.unpack_from(frame, at)
            at += _PART_ANSWER.size
            codes[Partition(name or "", index)] = code
    return codes
