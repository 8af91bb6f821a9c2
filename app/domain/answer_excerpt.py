"""The start of a subscriber's response, as people read it beside a failure."""

from codecs import getincrementaldecoder
from functools import lru_cache
from typing import Final

# The maximum number of bytes of a response's body that are kept with a failure. The text that is
# made of them has at most as many characters.
EXCERPT_MAX: Final = 512

_Utf8: Final = getincrementaldecoder("utf-8")
_LINES: Final = frozenset((ord("\n"), ord("\t")))
_CONTROLS: Final = {
    code: f"\\u{code:04x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if code not in _LINES
}


def answer_excerpt(body: bytes) -> str:
    """Return the first EXCERPT_MAX bytes of a response's body, if they are text.

    Control characters except line ends and tabs are replaced by their codes. If this makes the text
    longer than EXCERPT_MAX characters, it is cut. The result is empty for a body that is not UTF-8.
    """
    return _excerpt(body[:EXCERPT_MAX], whole=len(body) <= EXCERPT_MAX)


# Failed responses of a subscriber are mostly equal. Equal excerpts are one object, so messages that
# wait for a retry need little memory for them.
@lru_cache(maxsize=256)
def _excerpt(start: bytes, *, whole: bool) -> str:
    try:
        # If the body goes on, drop the part of a character at the end.
        text = _Utf8().decode(start, final=whole)
    except UnicodeDecodeError:
        return ""
    return text.replace("\r\n", "\n").translate(_CONTROLS)[:EXCERPT_MAX]
