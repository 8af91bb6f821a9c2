"""Rules for request heads, so that every server finds the end of a request at the same place."""

from collections.abc import Sequence
from typing import Final

Headers = Sequence[tuple[bytes, bytes]]

_VERSIONS: Final = ("1.1", "1.0")
# The maximum number of digits in `Content-Length`. Some servers cannot read longer numbers.
_LENGTH_DIGITS_MAX: Final = 20


def head_problem(method: bytes, version: str, headers: Headers, *, target: bytes) -> str | None:
    """Return why a request with this head is refused; None if it is accepted.

    `target` is the target in the first line. Names of `headers` are in lower case. The parser
    itself refuses two lengths, and a length together with a body in HTTP chunks.
    """
    return _line_problem(method, version, target) or _fields_problem(version, headers)


def _line_problem(method: bytes, version: str, target: bytes) -> str | None:
    if version not in _VERSIONS:
        return f"The version of HTTP must be 1.1 or 1.0, not {version}."
    if method == b"CONNECT":
        return "CONNECT is for proxies, which this is not."
    if b"#" in target:
        # No form of a target has a fragment (RFC 9112, section 3.2). The parser accepts one, and
        # the path would end before it.
        return "The target must have no fragment: write # as %23."
    return None


def _fields_problem(version: str, headers: Headers) -> str | None:
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
    """Return the raw length of the body in the headers. The parser accepts only one length."""
    return next((value for name, value in headers if name == b"content-length"), None)


def _coding_problem(version: str, coding: bytes) -> str | None:
    if version == "1.0":
        return "HTTP/1.0 has no Transfer-Encoding: send a Content-Length."
    if coding.strip(b" \t").lower() != b"chunked":
        return "Transfer-Encoding must be chunked: no other one is understood."
    return None


def without_upgrade(first_line: bytes, headers: Headers) -> bytes:
    """Return the head of a request without its upgrade to another protocol.

    See RFC 9110, section 7.8.
    """
    lines = [b"%s: %s" % header for header in headers if header[0] != b"upgrade"]
    return b"\r\n".join((first_line, *lines, b"", b""))
