"""Produce requests and their responses as bytes (pure).

Format: Kafka protocol guide, Produce API version 8, the last one without tagged fields. Brokers
from 2.4 on support it. kafka-python's classes do the same, but take ten times as long.
"""

import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

from app.log.kafka.protocol.wire import COUNT, MalformedAnswerError, request, string, text

VERSION: Final = 8
PRODUCE: Final = (0, VERSION)
# The maximum size of a broker's response to an append. Real responses are much smaller.
ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024

_BODY: Final = struct.Struct(">hhi")
_PARTITION: Final = struct.Struct(">ii")
_ANSWER: Final = struct.Struct(">ihqqq")
_NO_TRANSACTION: Final = -1

Batches = Mapping[int, bytes]
"""Record batches by partition."""


class PartitionAnswer(NamedTuple):
    """The result for one partition's batch.

    If `error_code` is 0, the records of the batch are stored from `base_offset` on.
    """

    error_code: int
    base_offset: int


Answers = dict[tuple[str, int], PartitionAnswer]
"""The results by topic and partition."""


def request_frame(
    correlation: int, topics: Mapping[str, Batches], *, acks: int, timeout_ms: int, client: str
) -> bytes:
    """Return one request for all batches, with its length prefix."""
    body = [_BODY.pack(_NO_TRANSACTION, acks, timeout_ms), COUNT.pack(len(topics))]
    for name, batches in topics.items():
        body += (string(name), COUNT.pack(len(batches)))
        for partition, records in batches.items():
            body += (_PARTITION.pack(partition, len(records)), records)
    return request(PRODUCE, correlation, client=client, body=body)


class AppendAnswer(NamedTuple):
    """A response to an append. After it, the broker accepts no requests for `throttle_ms`."""

    correlation: int
    answers: Answers
    throttle_ms: int


def read_answer(frame: bytes) -> AppendAnswer:
    """Return the content of a response without its length prefix.

    Raises:
        MalformedAnswerError: The response is invalid.
    """
    try:
        return _answer(frame)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise MalformedAnswerError(f"the answer to a produce request: {error}") from error


def _answer(frame: bytes) -> AppendAnswer:
    correlation, topics = _PARTITION.unpack_from(frame)
    at = _PARTITION.size
    found: Answers = {}
    for _ in range(topics):
        name, at = text(frame, at)
        (partitions,) = COUNT.unpack_from(frame, at)
        at += COUNT.size
        for _ in range(partitions):
            index, code, offset, _, _ = _ANSWER.unpack_from(frame, at)
            at = _after_reasons(frame, at + _ANSWER.size)
            found[name or "", index] = PartitionAnswer(code, offset)
    (throttle_ms,) = COUNT.unpack_from(frame, at)
    return AppendAnswer(correlation, found, throttle_ms)


def _after_reasons(frame: bytes, at: int) -> int:
    """Return the position after the list of refused records.

    The list is skipped, because the error code is enough.
    """
    (errors,) = COUNT.unpack_from(frame, at)
    at += COUNT.size
    for _ in range(errors):
        _, at = text(frame, at + COUNT.size)
    return text(frame, at)[1]
