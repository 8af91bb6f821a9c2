"""A request as bytes."""

from collections.abc import Iterable, Sequence
from typing import Final

import httpx

Header = tuple[bytes, bytes]

_VERSION: Final = b"HTTP/1.1"
# The body is in memory, so the length is known and is sent by us.
_FRAMING: Final = frozenset((b"content-length", b"transfer-encoding"))
# Looked at first: most names are of another length, and lower-casing them all would cost more.
_FRAMING_LENGTHS: Final = frozenset(map(len, _FRAMING))


def request_start(method: bytes, target: bytes, headers: Iterable[Header]) -> bytes:
    """What many requests have in common (RFC 9112): `whole_request` makes one of it.

    Raises httpx.LocalProtocolError when a header or the target holds a line break: what follows it
    would be taken for a header, or for another request.
    """
    return _checked([b" ".join((method, target, _VERSION)), *_lines(headers), b""])


def whole_request(start: bytes, headers: Sequence[Header], body: bytes) -> bytes:
    """A request with that start, more `headers` and `body`, framed by Content-Length.

    Raises httpx.LocalProtocolError as `request_start`.
    """
    framing = b"Content-Length: %d\r\n\r\n" % len(body)
    if not headers:
        return b"".join((start, framing, body))
    return b"".join((start, _checked([*_lines(headers), b""]), framing, body))


def one_request(method: bytes, target: bytes, *, headers: Iterable[Header], body: bytes) -> bytes:
    """The same, for one that has nothing in common with others."""
    first = b" ".join((method, target, _VERSION))
    return b"".join(
        (
            _checked([first, *_lines(headers), b""]),
            b"Content-Length: %d\r\n\r\n" % len(body),
            body,
        )
    )


def fields_of(request: bytes) -> tuple[bytes, bytes, list[Header], bytes]:
    """Method, target, headers and body of what `whole_request` made."""
    head, _, body = request.partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    method, target, _ = first.split(b" ", 2)
    pairs = (line.partition(b": ") for line in lines)
    return method, target, [(name, value) for name, _, value in pairs], body


def _lines(headers: Iterable[Header]) -> list[bytes]:
    # Joined, not formatted: that takes twice as long, and this is done for each delivery.
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
