"""Cuts large JSON into pieces, so that it can be checked a piece at a time.

To check a whole message at once would delay all other work: orjson creates the values, and holds
the interpreter's lock all the time.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

# The size of a piece in bytes, if there are enough commas outside of texts.
PIECE_BYTES: Final = 64 * 1024

# The number of texts among which a comma is searched. Valid JSON has a comma among so many texts,
# because it has at most 1,024 levels.
_TEXTS_MAX: Final = 2_500
_NO_BRACKET: Final = bytes(set(range(256)) - set(b"[]{}"))
_CLOSING: Final = {ord("["): b"]", ord("{"): b"}"}
# Finds groups of brackets that only open containers, or only close them.
_RUNS: Final = re.compile(rb"[\[{]+|[\]}]+").findall


class BodyPiece(NamedTuple):
    """A piece of a larger JSON text, changed so that it is valid JSON itself.

    `start` is where it begins in the larger text. Its first `added` bytes open the lists and
    objects that are open there.
    """

    start: int
    added: int
    text: bytes


class JsonPart(NamedTuple):
    """A part of a JSON value, from `start` to before `stop`.

    The text `opening` opens the lists and objects that are open before the part. The text `closing`
    closes the lists and objects that are open after the part. In the last part, `closing` is None,
    because the value ends at `stop` or before it.
    """

    start: int
    stop: int
    opening: bytes
    closing: bytes | None


class _Cut(NamedTuple):
    # The position of a comma outside of texts, and all brackets before this comma.
    at: int
    brackets: bytes


def pieces(body: bytes, size: int = PIECE_BYTES) -> Iterator[BodyPiece]:
    """Yield pieces of about `size` bytes. `body` is JSON if each piece is JSON.

    The body is cut after commas. Each of the two pieces at a cut has the comma, with a placeholder
    for the values on the other side.
    """
    for start, stop, opening, closing in value_parts(body, 0, size):
        # The last piece has the whole rest of the body: if the value ends earlier, the piece is not
        # JSON.
        rest = body[start:] if closing is None else body[start:stop] + closing
        yield BodyPiece(start, len(opening), opening + rest)


def value_parts(body: bytes, at: int, size: int = PIECE_BYTES) -> Iterator[JsonPart]:
    """Yield the parts, of about `size` bytes, of the JSON value that begins at `at`."""
    open_ones = bytearray()
    while True:
        opening = _opening(open_ones)
        cut = _cut(body, at, size)
        if cut is None or not _follow(open_ones, cut.brackets):
            yield JsonPart(at, len(body) if cut is None else cut.at, opening, None)
            return
        yield JsonPart(at, cut.at, opening, _closed(open_ones))
        at = cut.at + 1


def _opening(open_ones: bytearray) -> bytes:
    """Return a text that opens these lists and objects.

    In the innermost one, it has a placeholder and a comma.
    """
    if not open_ones:
        return b""
    outer = b"".join(b"[" if each == ord("[") else b'{"":' for each in open_ones[:-1])
    return outer + (b"[0," if open_ones[-1] == ord("[") else b'{"":0,')


def _closed(open_ones: bytearray) -> bytes:
    """Return a text that closes these lists and objects.

    In the innermost one, it begins with a comma and a placeholder.
    """
    value = b",0" if open_ones[-1] == ord("[") else b',"":0'
    return value + b"".join(_CLOSING[each] for each in reversed(open_ones))


def _follow(open_ones: bytearray, brackets: bytes) -> bool:
    """Apply brackets to the list of open brackets. Return False if all were closed at some point.

    The kinds of closing brackets are not compared: if one is wrong, its piece is not JSON.
    """
    # Remove most pairs of brackets quickly.
    for _ in range(3):
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    for run in _RUNS(brackets):
        if run[0] in _CLOSING:
            open_ones += run
        elif len(run) >= len(open_ones):
            return False
        else:
            del open_ones[-len(run) :]
    return bool(open_ones)


def without_escapes(body: bytes, at: int, size: int) -> bytes:
    """Return the next `size` bytes, in which no quotation mark is escaped by a backslash.

    Other characters replace the escapes, so the length stays the same. If the bytes would end
    inside of an escape, there is one byte more.
    """
    window = body[at : at + size]
    if b"\\" not in window:
        return window
    if (len(window) - len(window.rstrip(b"\\"))) % 2:
        window = body[at : at + size + 1]
    # First replace double backslashes: then a backslash before a quote always escapes it.
    return window.replace(b"\\\\", b"__").replace(b'\\"', b"__")


def _cut(body: bytes, start: int, size: int) -> _Cut | None:
    """Return the last comma outside of texts in the next `size` bytes, to cut there.

    If there is none, the following bytes are searched. The result is None if there is no comma
    before the last `size` bytes, or if the text is not JSON.
    """
    brackets, at, in_text = b"", start, 0
    while at + size < len(body):
        window = without_escapes(body, at, size)
        # Of these parts, every second one is outside of texts.
        parts = window.split(b'"')
        if found := _last_comma(parts, in_text):
            return _Cut(at + found.at, brackets + found.brackets)
        # Stop here. It would take too long to search further texts for a comma.
        if len(parts) > _TEXTS_MAX:
            return None
        brackets += b"".join(parts[in_text::2]).translate(None, _NO_BRACKET)
        in_text = (in_text + len(parts) - 1) % 2
        at += len(window)
    return None


def _last_comma(parts: Sequence[bytes], outside: int) -> _Cut | None:
    """Return the last comma in the parts that are outside of texts.

    Every second part is outside of texts, beginning with the index `outside`.
    """
    last = len(parts) - 1 - (len(parts) - 1 - outside) % 2
    for index in range(last, max(-1, last - _TEXTS_MAX), -2):
        if (comma := parts[index].rfind(b",")) >= 0:
            before = [*parts[outside:index:2], parts[index][:comma]]
            brackets = b"".join(before).translate(None, _NO_BRACKET)
            return _Cut(sum(map(len, parts[:index])) + index + comma, brackets)
    return None
