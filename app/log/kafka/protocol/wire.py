"""What the requests and answers of Kafka's protocol are made of (pure).

Format: Kafka protocol guide; request header 1 and response header 0, those without tagged fields.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from app.domain.message import Partition

FRAME_LENGTH: Final = struct.Struct(">i")
COUNT: Final = struct.Struct(">i")
SHORT: Final = struct.Struct(">h")

_HEAD: Final = struct.Struct(">ihhi")


class MalformedAnswerError(Exception):
    """A broker's answer ends early, or is none."""


def request(
    kind: tuple[int, int], correlation: int, *, client: str, body: Sequence[bytes]
) -> bytes:
    """A request with its length in front; `kind`: the API's key and version."""
    name = string(client)
    length = _HEAD.size - FRAME_LENGTH.size + len(name) + sum(map(len, body))
    return b"".join((_HEAD.pack(length, *kind, correlation), name, *body))


def string(value: str) -> bytes:
    """A string with its length in front."""
    encoded = value.encode()
    return SHORT.pack(len(encoded)) + encoded


def text(frame: bytes, at: int) -> tuple[str | None, int]:
    """A nullable string, and the place after it; IndexError or struct.error if it is cut off."""
    (length,) = SHORT.unpack_from(frame, at)
    at += SHORT.size
    if length < 0:
        return None, at
    if at + length > len(frame):
        raise IndexError("a string runs over its end")
    return frame[at : at + length].decode(), at + length


def correlation_of(frame: bytes) -> int:
    """Which request it answers; MalformedAnswerError."""
    if len(frame) < COUNT.size:
        raise MalformedAnswerError("an answer without a correlation id")
    correlation: int = COUNT.unpack_from(frame)[0]
    return correlation


def frames(buffer: bytearray, *, bytes_max: int) -> Iterable[bytes]:
    """Take the whole frames from the front of `buffer`, each without its length.

    MalformedAnswerError for one of more than `bytes_max` bytes.
    """
    while len(buffer) >= FRAME_LENGTH.size:
        (length,) = FRAME_LENGTH.unpack_from(buffer)
        end = FRAME_LENGTH.size + length
        if not 0 <= length <= bytes_max:
            raise MalformedAnswerError(f"an answer of {length} bytes")
        if len(buffer) < end:
            return
        with memoryview(buffer) as view:
            frame = bytes(view[FRAME_LENGTH.size : end])
        del buffer[:end]
        yield frame


def by_topic(partitions: Iterable[Partition]) -> Mapping[str, list[int]]:
    """Partition numbers per topic: requests name them so."""
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return topics
