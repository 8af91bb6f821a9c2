"""What the head of a request must be, so that nobody takes its end for another place than we do."""

from collections.abc import Sequence
from typing import Final

Headers = Sequence[tuple[bytes, bytes]]

_VERSIONS: Final = ("1.1", "1.0")
# Others read no number in more.
_LENGTH_DIGITS_MAX: Final = 20


def head_problem(method: bytes, version: str, headers: Headers) -> str | None:
    """Why a request with this head is refused; None if it is not.

    Names of `headers` are in lower case. The parser has refused what contradicts itself already:
    two lengths, or a length beside chunks.
    """
    if version not in _VERSIONS:
        return f"The version of HTTP must be 1.1 or 1.0, not {version}."
    if method == b"CONNECT":
        return "CONNECT is for proxies, which this is not."
    names = [name for name, _ in headers]
    hosts = names.count(b"host")
    if hosts > 1 or (not hosts and version == "1.1"):
        return f"There must be one Host header, not {hosts}."
    if len(content_length(headers) or b"") > _LENGTH_DIGITS_MAX:
        return f"Content-Length must have at most {_LENGTH_DIGITS_MAX} digits."
    if b"transfer-encoding" in names:
        codings = [value for name, value in headers if name == b"transfer-encoding"]
        return _coding_problem(version, b",".join(codings))
    return None


def content_length(headers: Headers) -> bytes | None:
    """What they say of the length of the body, as they say it; the parser takes it but once."""
    return next((value for name, value in headers if name == b"content-length"), None)


def _coding_problem(version: str, coding: bytes) -> str | None:
    if version == "1.0":
        return "HTTP/1.0 has no Transfer-Encoding: send a Content-Length."
    if coding.strip(b" \t").lower() != b"chunked":
        return "Transfer-Encoding must be chunked: no other one is understood."
    return None


def without_upgrade(first_line: bytes, headers: Headers) -> bytes:
    """The head of a request without its wish for another protocol (RFC 9110, section 7.8)."""
    lines = [b"%s: %s" % header for header in headers if header[0] != b"upgrade"]
    return b"\r\n".join((first_line, *lines, b"", b""))
