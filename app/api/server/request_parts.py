"""Where to cut what comes on a connection, so that the first line of each request is seen.

The parser says neither what the line was nor where in the bytes a request ends. It is given what
comes in parts that end where a head or a body does: then the next part begins a request. Within
chunks there is no end to look for, whatever they hold: their sizes say where the last one is.
"""

import re
from enum import Enum, auto
from typing import Final

# A method, a target and a version, with one space between them (RFC 9112, section 3). What each may
# be the parser knows, and which versions are served `head_problem`.
_FIRST_LINE: Final = re.compile(rb"[^ \r\n]+ [^ \r\n]+ HTTP/[^ \r\n]*\r\n")
_NO_FIRST_LINE: Final = "Expected method, target and version with one space between them"
_END: Final = b"\r\n\r\n"
# The line before a chunk: its size, perhaps with extensions (section 7.1).
_CHUNK_LINE: Final = re.compile(rb"([0-9A-Fa-f]+)[^\r\n]*\r\n")
# Others read no size in more, or take only the last ones of them.
_SIZE_DIGITS_MAX: Final = 20
_LONG_SIZE: Final = re.compile(rb"[0-9A-Fa-f]{%d}" % (_SIZE_DIGITS_MAX + 1))
_NO_SIZE: Final = f"The size of a chunk must have at most {_SIZE_DIGITS_MAX} digits"
# A part has no more chunks than this: each of them is a step of the parser, and of the server.
CHUNKS_MAX: Final = 256


class _Within(Enum):
    LINE = auto()
    HEAD = auto()
    LENGTH = auto()
    CHUNKS = auto()
    TRAILERS = auto()


class RequestParts:
    """Follows the requests of a connection, as the parser tells of them."""

    def __init__(self) -> None:
        self._within = _Within.LINE
        # Of a first line, what has come of it.
        self._line = b""
        # The bytes before the next part: an end may come in two reads.
        self._before = b""
        # Bytes of the body, or of the chunk and the end of its line, that are still to come.
        self._left = 0
        # How many chunks have begun, since somebody set it to 0.
        self.chunks = 0
        # Why the line with which the last part ended is refused, though the parser takes it.
        self.problem = ""

    def cut(self, data: bytes, start: int) -> int:
        """Where in `data` the part ends that begins at `start`; at most at the end of both."""
        match self._within:
            case _Within.LINE:
                return self._line_end(data, start)
            case _Within.LENGTH:
                return self._skipped(data, start)
            case _Within.CHUNKS:
                return self._chunks_end(data, start)
            case _:
                return self._blank_line_end(data, start)

    def head_ended(self, length: bytes | None) -> None:
        """A body of that length follows, or None: chunks, if anything."""
        if length is None:
            self._within, self._left, self._line = _Within.CHUNKS, 0, b""
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
        if not _FIRST_LINE.fullmatch(self._line):
            self.problem = _NO_FIRST_LINE
            return end
        self._within, self._before = _Within.HEAD, b"\r\n"
        return self._blank_line_end(data, end)

    def _skipped(self, data: bytes, start: int) -> int:
        size = min(self._left, len(data) - start)
        self._left -= size
        return start + size

    def _chunks_end(self, data: bytes, start: int) -> int:
        """The end of the body where that has come, or else of some of its chunks."""
        for _ in range(CHUNKS_MAX):
            start = self._skipped(data, start)
            end = data.find(b"\n", start) + 1
            self._line += data[start : end or len(data)]
            if not end:
                return len(data)
            if _LONG_SIZE.match(self._line):
                self.problem = _NO_SIZE
                return end
            size = _chunk_size(self._line)
            if not size:
                self._within, self._before = _Within.TRAILERS, b"\r\n"
                return self._blank_line_end(data, end)
            self._line, self._left, start = b"", size + len(b"\r\n"), end
            self.chunks += 1
        return start

    def _blank_line_end(self, data: bytes, start: int) -> int:
        """Where a head may end, or the fields behind the last chunk."""
        before = self._before
        found = (before + data[start : start + len(_END) - 1]).find(_END)
        if found >= 0:
            stop = start - len(before) + found + len(_END)
        else:
            found = data.find(_END, start)
            stop = len(data) if found < 0 else found + len(_END)
        self._before = (before + data[max(start, stop - 3) : stop])[-3:]
        return stop


def _chunk_size(line: bytes) -> int:
    """0 is that of the last one; or there is none, and the parser refuses that line."""
    found = _CHUNK_LINE.fullmatch(line)
    return int(found[1], 16) if found else 0
