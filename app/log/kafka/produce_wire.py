"""Produce requests and their answers as bytes (pure).

Format: Kafka protocol guide, Produce API version 8 with request header 1 and response header 0,
the last one without tagged fields. Brokers from 2.4 on speak it, those of today too. kafka-python's
own classes write and read the same; this takes a tenth of their time.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

PRODUCE: Final = 0
VERSION: Final = 8
FRAME_LENGTH: Final = struct.Struct(">i")
# No answer of a broker to an append comes near it.
ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024

_HEAD: Final = struct.Struct(">ihhi")
_BODY: Final = struct.Struct(">hhi")
_COUNT: Final = struct.Struct(">i")
_SHORT: Final = struct.Struct(">h")
_PARTITION: Final = struct.Struct(">ii")
_ANSWER: Final = struct.Struct(">ihqqq")
_NO_TRANSACTION: Final = -1

Batches = Mapping[int, bytes]
"""Record batches by partition."""


class MalformedAnswerError(Exception):
    """A broker's answer ends early, or is none."""


class PartitionAnswer(NamedTuple):
    """What became of one partition's batch; `error_code` 0: it is stored from `base_offset` on."""

    error_code: int
    base_offset: int


Answers = dict[tuple[str, int], PartitionAnswer]
"""By topic and partition."""


def request_frame(
    correlation: int, topics: Mapping[str, Batches], *, acks: int, timeout_ms: int, client: str
) -> bytes:
    """One request for all of them, with its length in front."""
    parts = [_string(client), _BODY.pack(_NO_TRANSACTION, acks, timeout_ms)]
    parts.append(_COUNT.pack(len(topics)))
    for name, batches in topics.items():
        parts += (_string(name), _COUNT.pack(len(batches)))
        for partition, records in batches.items():
            parts += (_PARTITION.pack(partition, len(records)), records)
    length = _HEAD.size - FRAME_LENGTH.size + sum(map(len, parts))
    return b"".join((_HEAD.pack(length, PRODUCE, VERSION, correlation), *parts))


def read_answer(frame: bytes) -> tuple[int, Answers]:
    """The correlation id of an answer, which has no length in front, and what it says.

    MalformedAnswerError.
    """
    try:
        return _answer(frame)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise MalformedAnswerError(f"the answer to a produce request: {error}") from error


def _answer(frame: bytes) -> tuple[int, Answers]:
    correlation, topics = _PARTITION.unpack_from(frame)
    at = _PARTITION.size
    found: Answers = {}
    for _ in range(topics):
        name, at = _text(frame, at)
        (partitions,) = _COUNT.unpack_from(frame, at)
        at += _COUNT.size
        for _ in range(partitions):
            index, code, offset, _, _ = _ANSWER.unpack_from(frame, at)
            at = _after_reasons(frame, at + _ANSWER.size)
            found[name or "", index] = PartitionAnswer(code, offset)
    return correlation, found


def _after_reasons(frame: bytes, at: int) -> int:
    """Pass over which records a broker refused, and why: the error code says enough."""
    (errors,) = _COUNT.unpack_from(frame, at)
    at += _COUNT.size
    for _ in range(errors):
        _, at = _text(frame, at + _COUNT.size)
    return _text(frame, at)[1]


def _string(text: str) -> bytes:
    encoded = text.encode()
    return _SHORT.pack(len(encoded)) + encoded


def _text(frame: bytes, at: int) -> tuple[str | None, int]:
    """A nullable string, and the place after it."""
    (length,) = _SHORT.unpack_from(frame, at)
    at += _SHORT.size
    if length < 0:
        return None, at
    if at + length > len(frame):
        raise IndexError("a string runs over its end")
    return frame[at : at + length].decode(), at + length


def frames(buffer: bytearray) -> Iterable[bytes]:
    """Take the whole frames from the front of `buffer`, each without its length.

    MalformedAnswerError for one of more than ANSWER_BYTES_MAX bytes.
    """
    while len(buffer) >= FRAME_LENGTH.size:
        (length,) = FRAME_LENGTH.unpack_from(buffer)
        end = FRAME_LENGTH.size + length
        if not 0 <= length <= ANSWER_BYTES_MAX:
            raise MalformedAnswerError(f"an answer of {length} bytes")
        if len(buffer) < end:
            return
        frame = bytes(buffer[FRAME_LENGTH.size : end])
        del buffer[:end]
        yield frame
