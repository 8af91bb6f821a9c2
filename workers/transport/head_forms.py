"""Heads of answers that the parser refuses, although clients are allowed or required to take them.

Such heads are rare. So an answer is read here only after the parser has refused it.
"""

import re
from typing import Final

_HEAD_END: Final = b"\r\n\r\n"
_LINE_END: Final = b"\r\n"
_INTERIM: Final = re.compile(rb"HTTP/[0-9.]+ 1[0-9]{2}\b")
# A value that continues on the next line (RFC 9112, section 5.2).
_FOLD: Final = re.compile(rb"\r\n[ \t]+")
# Control characters, and line ends that are not complete.
_INVALID: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|(?<!\r)\n|\r(?=[^\n])")
_MAY_BE_OTHER: Final = re.compile(rb"\r\n(?:[ \t]|content-length:)", re.IGNORECASE)


def may_be_other(received: bytes) -> bool:
    """Whether `accepted_form` may change the head of this answer, complete or not."""
    return _MAY_BE_OTHER.search(received) is not None


def accepted_form(received: bytes) -> bytes | None:
    """Return an answer, and interim answers before it, with heads in the form that is accepted.

    A value on several lines is written on one line (RFC 9112, section 5.2). Several equal lengths
    become one (RFC 9110, section 8.6). All other bytes stay as they are.

    The result is None if the head of the final answer is not complete yet, and may be valid.
    """
    heads, rest, end = list[bytes](), received, _HEAD_END
    while end:
        head, end, rest = rest.partition(_HEAD_END)
        heads.append(_accepted_head(head) + end)
        if end and not _INTERIM.match(head):
            return b"".join((*heads, rest))
    return received if _INVALID.search(head) else None


def _accepted_head(head: bytes) -> bytes:
    first, end, fields = head.partition(_LINE_END)
    lines = _FOLD.sub(b" ", fields).split(_LINE_END)
    lengths = [line for line in lines if line[:15].lower() == b"content-length:"]
    values = {value.strip(b" \t") for line in lengths for value in line[15:].split(b",")}
    if len(values) == 1:
        others = [line for line in lines if line not in lengths]
        lines = [*others, b"Content-Length: " + values.pop()]
    return first + end + _LINE_END.join(lines)
