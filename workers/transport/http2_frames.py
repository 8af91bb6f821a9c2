"""The frames of HTTP/2, as far as h2 does not read them as we need it."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from h2.exceptions import FrameTooLargeError

_HEAD: Final = 9
_GOAWAY: Final = 0x7
# What a frame may have at most as long as we allow no more (RFC 9113, section 6.5.2).
_FRAME_MAX: Final = 16_384
_GOAWAY_MIN: Final = 8
_STREAM_BITS: Final = 0x7FFF_FFFF


class Goodbye(NamedTuple):
    """A GOAWAY: of requests after `last_stream` nothing was or will be done, for `code`."""

    last_stream: int
    code: int


class Goodbyes:
    """Takes GOAWAY frames out of what h2 is to read.

    It takes them for the end of the connection, while the requests before `last_stream` are still
    answered on it (RFC 9113, section 6.8): servers say so that a connection has been used enough.
    """

    __slots__ = ("_held", "_rest")

    def __init__(self) -> None:
        self._held = b""
        self._rest = 0

    def parts(self, data: bytes) -> Iterator[bytes | Goodbye]:
        """What h2 is to read, and goodbyes, in their order. Holds back less than two frames.

        Raises h2's FrameTooLargeError: h2 would wait for all of it.
        """
        data, self._held = self._held + data, b""
        start = position = 0
        while True:
            passed = min(self._rest, len(data) - position)
            position += passed
            self._rest -= passed
            length = self._whole_goodbye(data, position)
            if length is None:
                break
            if length:
                yield data[start:position]
                yield _goodbye(data, position + _HEAD)
                start = position = position + length
        end = len(data) - len(self._held)
        yield data[start:end]

    def _whole_goodbye(self, data: bytes, position: int) -> int | None:
        """The length of the GOAWAY there, 0 for another frame, None when more is to come."""
        if len(data) - position < _HEAD:
            self._held = data[position:]
            return None
        length = int.from_bytes(data[position : position + 3], "big")
        if length > _FRAME_MAX:
            message = f"a frame of {length} bytes"
            raise FrameTooLargeError(message)
        if data[position + 3] != _GOAWAY or length < _GOAWAY_MIN:
            self._rest = _HEAD + length
            return 0
        if len(data) - position < _HEAD + length:
            self._held = data[position:]
            return None
        return _HEAD + length


def _goodbye(data: bytes, start: int) -> Goodbye:
    last = int.from_bytes(data[start : start + 4], "big") & _STREAM_BITS
    return Goodbye(last, int.from_bytes(data[start + 4 : start + 8], "big"))
