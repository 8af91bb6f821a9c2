"""Parts of requests and responses that all of Kafka's API kinds share (pure).

Format: Kafka protocol guide; request header 1 and response header 0, which have no tagged fields.
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
    """A broker's response ends early, or is not a response."""


def request(
    kind: tuple[int, int], correlation: int, *, client: str, body: Sequence[bytes]
) -> bytes:
    """Return a request with its length prefix. `kind` is the key and the version of Kafka's API."""
    name = string(client)
    length = _HEAD.size - FRAME_LENGTH.size + len(name) + sum(map(len, body))
    return b"".join((_HEAD.pack(length, *kind, correlation), name, *body))


def string(value: str) -> bytes:
    """Return a string with its length prefix."""
    encoded = value.encode()
    return SHORT.pack(len(encoded)) + encoded


def text(frame: bytes, at: int) -> tuple[str | None, int]:
    """Return a nullable string and the position after it.

    Raises:
        IndexError: The string is cut off.
        struct.error: The string is cut off.
    """
    (length,) = SHORT.unpack_from(frame, at)
    at += SHORT.size
    if length < 0:
        return None, at
    if at + length > len(frame):
        raise IndexError("a string runs over its end")
    return frame[at : at + length].decode(), at + length


def correlation_of(frame: bytes) -> int:
    """Return the correlation id of a response.

    Raises:
        MalformedAnswerError: The response is invalid.
    """
    if len(frame) < COUNT.size:
        raise MalformedAnswerError("an answer without a correlation id")
    correlation: int = COUNT.unpack_from(frame)[0]
    return correlation


def frames(buffer: bytearray, *, bytes_max: int) -> Iterable[bytes]:
    """Remove complete frames from the start of `buffer`; yield each without its length prefix.

    Raises:
        MalformedAnswerError: A frame has more than `bytes_max` bytes.
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
    """Return the numbers of the partitions by topic, which is how requests name partitions."""
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return topics
