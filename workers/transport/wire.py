"""A request as bytes."""

from typing import Final

import httpx

# The body is in memory, so the length is known and is ours to say.
_FRAMING: Final = frozenset((b"content-length", b"transfer-encoding"))
# Looked at first: most names are of another length, and lower-casing them all would cost more.
_FRAMING_LENGTHS: Final = frozenset(map(len, _FRAMING))


def request_bytes(request: httpx.Request, body: bytes) -> bytes:
    """The request on the wire (RFC 9112), framed by Content-Length.

    Raises httpx.LocalProtocolError when a header or the target holds a line break: what follows it
    would be taken for a header, or for another request.
    """
    lines = [b"%b %b HTTP/1.1" % (request.method.encode("ascii"), request.url.raw_path)]
    lines += [
        name + b": " + value
        for name, value in request.headers.raw
        if len(name) not in _FRAMING_LENGTHS or name.lower() not in _FRAMING
    ]
    lines.append(b"Content-Length: %d\r\n\r\n" % len(body))
    head = b"\r\n".join(lines)
    if not head.count(b"\n") == head.count(b"\r") == len(lines) + 1:
        raise httpx.LocalProtocolError("a line break in a header")
    return head + body
