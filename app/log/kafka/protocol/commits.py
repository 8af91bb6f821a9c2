"""Offset commits and their answers as bytes (pure).

Format: Kafka protocol guide, OffsetCommit API version 7, the last one without tagged fields:
brokers from 2.3 on speak it, those of today too.
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

# A broker keeps what a request commits in one batch, and refuses all of one that is too large: of
# more than 1 MiB by default.
REQUEST_BYTES_MAX: Final = 512 * 1024

# So many are never too large, whatever their metadata says.
_ALWAYS_FIT: Final = 100
# Of a commit that is kept, apart from metadata and names.
_KEPT_BYTES: Final = 128

# No member and no generation: allowed for as long as the group has no members.
_NO_MEMBER: Final = struct.pack(">ihh", -1, 0, -1)
# Partition, offset, leader epoch.
_PART: Final = struct.Struct(">iqi")
_UNKNOWN_EPOCH: Final = -1
# Correlation, throttle time, number of topics.
_ANSWER: Final = struct.Struct(">iii")
# Partition, error.
_PART_ANSWER: Final = struct.Struct(">ih")


def at_once(group: str, offsets: Mapping[Partition, Committed]) -> Mapping[Partition, Committed]:
    """As many of them as one request may have, the first ones."""
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
    """The request for one group, with its length in front."""
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
    """Error codes by partition, 0 for none, of an answer, which has no length in front.

    MalformedAnswerError.
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
