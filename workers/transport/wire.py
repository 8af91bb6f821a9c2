"""A request as bytes."""

from collections.abc import Iterable, Sequence
from typing import Final

import httpx

Header = tuple[bytes, bytes]

_VERSION: Final = b"HTTP/1.1"
# The headers that describe the length of the body. Callers' values are left out, because this
# module sets Content-Length from the body.
_FRAMING: Final = frozenset((b"content-length", b"transfer-encoding"))
# The lengths of the names Content-Length and Transfer-Encoding. The length of a header's name is
# compared first, because most names have another length, and to convert each name to lower case
# would take longer.
_FRAMING_LENGTHS: Final = frozenset(map(len, _FRAMING))


def request_start(method: bytes, target: bytes, headers: Iterable[Header]) -> bytes:
    """Return the start that many requests have in common. `whole_request` adds the other parts.

    The format is HTTP/1.1 (RFC 9112).

    Raises:
        httpx.LocalProtocolError: A header or the target has a line break, so that the text after it
            would be taken for another header or request.
    """
    return _checked([b" ".join((method, target, _VERSION)), *_lines(headers), b""])


def whole_request(start: bytes, headers: Sequence[Header], body: bytes) -> bytes:
    """Return a request of `start`, more `headers`, a Content-Length and `body`.

    Raises:
        httpx.LocalProtocolError: A header has a line break, as in `request_start`.
    """
    framing = b"Content-Length: %d\r\n\r\n" % len(body)
    if not headers:
        return b"".join((start, framing, body))
    return b"".join((start, _checked([*_lines(headers), b""]), framing, body))


def one_request(method: bytes, target: bytes, *, headers: Iterable[Header], body: bytes) -> bytes:
    """Return one request, for callers that send no other requests with the same start."""
    first = b" ".join((method, target, _VERSION))
    return b"".join(
        (
            _checked([first, *_lines(headers), b""]),
            b"Content-Length: %d\r\n\r\n" % len(body),
            body,
        )
    )


def fields_of(request: bytes) -> tuple[bytes, bytes, list[Header], bytes]:
    """Return the method, target, headers and body of a request that `whole_request` made."""
    head, _, body = request.partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    method, target, _ = first.split(b" ", 2)
    pairs = (line.partition(b": ") for line in lines)
    return method, target, [(name, value) for name, _, value in pairs], body


def _lines(headers: Iterable[Header]) -> list[bytes]:
    # Join the parts of a header instead of formatting them. This code runs for each delivery, and
    # joining is twice as fast.
    return [
        b": ".join(header)
        for header in headers
        if len(header[0]) not in _FRAMING_LENGTHS or header[0].lower() not in _FRAMING
    ]


def _checked(lines: list[bytes]) -> bytes:
    joined = b"\r\n".join(lines)
    if not joined.count(b"\n") == joined.count(b"\r") == len(lines) - 1:
        raise httpx.LocalProtocolError("a line break in a header")
    return joined
