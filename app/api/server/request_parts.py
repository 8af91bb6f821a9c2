"""Divides received data, so that the first line of each request can be checked.

The parser reports neither the first line nor where a request ends in the bytes. So the parser gets
the data in parts that end where a head or a body ends. The next part then starts with a request. In
a body of HTTP chunks, the sizes of the chunks show where the last chunk is.
"""

import re
from enum import Enum, auto
from typing import Final

# The first line of a request: method, target and version with one space between them (RFC 9112,
# section 3). The parser checks each of these three, and `head_problem` also checks the version.
_FIRST_LINE: Final = re.compile(rb"[^ \r\n]+ [^ \r\n]+ HTTP/[^ \r\n]*\r\n")
_NO_FIRST_LINE: Final = "Expected method, target and version with one space between them"
_END: Final = b"\r\n\r\n"
# The line before an HTTP chunk: the size of the chunk, perhaps with extensions (RFC 9112, section
# 7.1).
_CHUNK_LINE: Final = re.compile(rb"([0-9A-Fa-f]+)[^\r\n]*\r\n")
# The maximum number of digits in the size of an HTTP chunk. Some servers cannot read longer sizes,
# or read only the last digits.
_SIZE_DIGITS_MAX: Final = 20
_LONG_SIZE: Final = re.compile(rb"[0-9A-Fa-f]{%d}" % (_SIZE_DIGITS_MAX + 1))
_NO_SIZE: Final = f"The size of a chunk must have at most {_SIZE_DIGITS_MAX} digits"
# The maximum number of HTTP chunks in a part. The parser and the server need a step for each chunk.
CHUNKS_MAX: Final = 256


class _Within(Enum):
    LINE = auto()
    HEAD = auto()
    LENGTH = auto()
    CHUNKS = auto()
    TRAILERS = auto()


class RequestParts:
    """Follows the requests of a connection, by the callbacks of the parser."""

    def __init__(self) -> None:
        self._within = _Within.LINE
        # The start of a line that is not complete yet.
        self._line = b""
        # The last bytes of the part before. The blank line at the end of a head may be split
        # between two reads.
        self._before = b""
        # The number of remaining bytes of the body, or of the current HTTP chunk with its line end.
        self._left = 0
        # How many HTTP chunks have started. The connection sets this number back to 0.
        self.chunks = 0
        # The reason why the line at the end of the newest part is refused, although the parser
        # accepts the line.
        self.problem = ""

    def cut(self, data: bytes, start: int) -> int:
        """Return where in `data` the part ends that starts at `start`.

        The result is at most the length of `data`.
        """
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
        """Called at the end of a head.

        `length` is the length of the body. It is None for a body in HTTP chunks, or for no body.
        """
        if length is None:
            self._within, self._left, self._line = _Within.CHUNKS, 0, b""
        else:
            self._within, self._left = _Within.LENGTH, int(length)

    def ended(self) -> None:
        """Called at the end of the request."""
        self._within, self._line = _Within.LINE, b""

    def _line_end(self, data: bytes, start: int) -> int:
        """Return where the head ends in `data`, or the length of `data` if it is not complete.

        If the first line is invalid, set `problem`, and return where that line ends.
        """
        if not self._line:
            # Skip empty lines before a request (RFC 9112, section 2.2).
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
        """Return where the body ends in `data`; if it is not complete, where some chunks end."""
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
        """Return where the next blank line ends in `data`, or the length of `data` without one.

        A blank line ends a head, or the fields after the last HTTP chunk.
        """
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
    """Return the size in the line before an HTTP chunk.

    Return 0 for the last chunk, or for a line that the parser refuses.
    """
    found = _CHUNK_LINE.fullmatch(line)
    return int(found[1], 16) if found else 0
