"""Handles the HTTP/2 frames for which the library h2 does not do what this service needs."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from h2.exceptions import FrameTooLargeError

from workers.transport.limits import (
    ACKNOWLEDGING_MAX,
    LARGE_FRAME,
    SMALL_FRAMES_MAX,
    SMALL_FRAMES_PER_REQUEST,
    SMALL_FRAMES_PER_S,
)

_HEAD: Final = 9
_DATA: Final = 0x0
_GOAWAY: Final = 0x7
# The largest frame that a server may send, because this client allows no larger one (RFC 9113,
# section 6.5.2).
_FRAME_MAX: Final = 16_384
_GOAWAY_MIN: Final = 8
_STREAM_BITS: Final = 0x7FFF_FFFF


class GoAway(NamedTuple):
    """A GOAWAY frame with its error `code`.

    The server does not process requests whose stream is after `last_stream`.
    """

    last_stream: int
    code: int


class FloodError(Exception):
    """The other side has sent more small frames than any server needs."""


class FrameBudget:
    """Limits how many small frames the other side of a connection may send.

    To process a small frame takes as much time as a large one, so a flood of them is an attack.
    """

    __slots__ = ("_at", "_left")

    def __init__(self, now: float) -> None:
        self._at = now
        self._left = float(SMALL_FRAMES_MAX)

    def refill(self, now: float) -> None:
        """Allow more small frames, by the time since the last call."""
        self._allow((now - self._at) * SMALL_FRAMES_PER_S)
        self._at = now

    def requested(self) -> None:
        """Allow more small frames, because another request was sent."""
        self._allow(SMALL_FRAMES_PER_REQUEST)

    def sent(self, size: int) -> None:
        """Allow small frames that acknowledge `size` sent bytes, one for each KiB.

        So more than SMALL_FRAMES_MAX frames may be allowed, because a server may acknowledge all
        sent bytes together.
        """
        self._left = max(self._left, min(ACKNOWLEDGING_MAX, self._left + size / 1024))

    def spend(self) -> None:
        """Count a small frame.

        Raises:
            FloodError: There were too many small frames.
        """
        self._left -= 1
        if self._left < 0:
            raise FloodError("too many small frames")

    def _allow(self, count: float) -> None:
        self._left = max(self._left, min(SMALL_FRAMES_MAX, self._left + count))


class GoAways:
    """Removes GOAWAY frames from the input of the library h2, and counts small frames.

    h2 treats a GOAWAY as the end of the connection. But requests up to `last_stream` still get
    responses (RFC 9113, section 6.8). Servers send a GOAWAY when a connection was used often
    enough.
    """

    __slots__ = ("_budget", "_held", "_rest")

    def __init__(self, budget: FrameBudget) -> None:
        self._budget = budget
        self._held = b""
        self._rest = 0

    def parts(self, data: bytes) -> Iterator[bytes | GoAway]:
        """Yield the input for h2 and the GOAWAY frames, in order.

        At most one incomplete frame is kept in memory until the next call.

        Raises:
            FrameTooLargeError: A frame is larger than h2 accepts.
            FloodError: There were too many small frames. The caller must not read on.
        """
        data, self._held = self._held + data, b""
        start = position = 0
        while True:
            passed = min(self._rest, len(data) - position)
            position += passed
            self._rest -= passed
            length = self._whole_go_away(data, position)
            if length is None:
                break
            if length:
                yield data[start:position]
                yield _go_away(data, position + _HEAD)
                start = position = position + length
        end = len(data) - len(self._held)
        yield data[start:end]

    def _whole_go_away(self, data: bytes, position: int) -> int | None:
        """Return the length of the GOAWAY at `position`, or 0 for another frame.

        Returns:
            None if the frame is incomplete.
        """
        if len(data) - position < _HEAD:
            self._held = data[position:]
            return None
        length = int.from_bytes(data[position : position + 3], "big")
        if length > _FRAME_MAX:
            message = f"a frame of {length} bytes"
            raise FrameTooLargeError(message)
        kind = data[position + 3]
        if kind != _GOAWAY or length < _GOAWAY_MIN:
            if kind != _DATA or length < LARGE_FRAME:
                self._budget.spend()
            self._rest = _HEAD + length
            return 0
        if len(data) - position < _HEAD + length:
            self._held = data[position:]
            return None
        self._budget.spend()
        return _HEAD + length


def _go_away(data: bytes, start: int) -> GoAway:
    last = int.from_bytes(data[start : start + 4], "big") & _STREAM_BITS
    return GoAway(last, int.from_bytes(data[start + 4 : start + 8], "big"))
