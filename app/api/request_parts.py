"""Where to cut what comes on a connection, so that the first line of each request is seen.

The parser says neither what the line was nor where in the bytes a request ends. It is given what
comes in parts that end where a head or a body does: then the next part begins a request.
"""

import re
from enum import Enum, auto
from typing import Final

# A method, a target and a version, with one space between them (RFC 9112, section 3). What each may
# be the parser knows, and which versions are served `head_problem`.
_FIRST_LINE: Final = re.compile(rb"[^ \r\n]+ [^ \r\n]+ HTTP/[^ \r\n]*\r\n")
NO_FIRST_LINE: Final = "Expected method, target and version with one space between them"
_END: Final = b"\r\n\r\n"


class _Within(Enum):
    LINE = auto()
    HEAD = auto()
    LENGTH = auto()
    CHUNKS = auto()


class RequestParts:
    """Follows the requests of a connection, as the parser tells of them."""

    def __init__(self) -> None:
        self._within = _Within.LINE
        # Of a first line, what has come of it.
        self._line = b""
        # The bytes before the next part: an end may come in two reads.
        self._before = b""
        # Bytes of the body that are still to come.
        self._left = 0
        # Whether the last part ended with a first line that is none.
        self.is_malformed = False

    def cut(self, data: bytes, start: int) -> int:
        """Where in `data` the part ends that begins at `start`; at most at the end of both."""
        match self._within:
            case _Within.LINE:
                return self._line_end(data, start)
            case _Within.LENGTH:
                size = min(self._left, len(data) - start)
                self._left -= size
                return start + size
            case _:
                return self._blank_line_end(data, start)

    def head_ended(self, length: bytes | None) -> None:
        """A body of that length follows, or None: chunks, if anything."""
        if length is None:
            self._within = _Within.CHUNKS
        else:
            self._within, self._left = _Within.LENGTH, int(length)

    def ended(self) -> None:
        """The request is there."""
        self._within, self._line = _Within.LINE, b""

    def _line_end(self, data: bytes, start: int) -> int:
        """The end of the first line, and of the head where that has come, too."""
        if not self._line:
            # Empty lines before a request are ignored (section 2.2).
            while data[start : start + 1] in {b"\r", b"\n"}:
                start += 1
        end = data.find(b"\n", start) + 1
        self._line += data[start : end or len(data)]
        if not end:
            return len(data)
        self.is_malformed = not _FIRST_LINE.fullmatch(self._line)
        if self.is_malformed:
            return end
        self._within, self._before = _Within.HEAD, b"\r\n"
        return self._blank_line_end(data, end)

    def _blank_line_end(self, data: bytes, start: int) -> int:
        """Where a head may end, or chunks with the fields behind them."""
        before = self._before
        found = (before + data[start : start + len(_END) - 1]).find(_END)
        if found >= 0:
            stop = start - len(before) + found + len(_END)
        else:
            found = data.find(_END, start)
            stop = len(data) if found < 0 else found + len(_END)
        self._before = (before + data[max(start, stop - 3) : stop])[-3:]
        return stop
