"""Cuts large JSON into pieces, so that the pieces can be checked one after another.

To check a whole message at once would delay all other work: orjson creates the values, and holds
the interpreter's lock all the time.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

# The size of a piece in bytes, if there are enough commas outside of texts.
PIECE_BYTES: Final = 64 * 1024

# To find a comma, at most so many quoted texts are passed. Valid JSON has at most 1,024 levels, so
# it has a comma among so many texts.
_TEXTS_MAX: Final = 2_500
_NO_BRACKET: Final = bytes(set(range(256)) - set(b"[]{}"))
_CLOSING: Final = {ord("["): b"]", ord("{"): b"}"}
# Finds groups of brackets: each group only opens lists and objects, or only closes them.
_RUNS: Final = re.compile(rb"[\[{]+|[\]}]+").findall


class BodyPiece(NamedTuple):
    """A piece of a larger JSON text, changed so that the piece is valid JSON itself.

    The piece begins at the position `start` of the larger text. The first `added` bytes of the
    piece were added: they open the lists and objects that are open at this position.
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
    # The position of a comma outside of quoted texts, and all brackets before this comma.
    at: int
    brackets: bytes


def pieces(body: bytes, size: int = PIECE_BYTES) -> Iterator[BodyPiece]:
    """Yield pieces of about `size` bytes. `body` is JSON if each piece is JSON.

    The body is cut at commas. The pieces before and after a cut both get this comma. A placeholder
    stands for the values on the other side of the comma.
    """
    for start, stop, opening, closing in value_parts(body, 0, size):
        # The last piece has all bytes up to the end of the body. If the JSON value ends earlier,
        # this piece is not JSON.
        rest = body[start:] if closing is None else body[start:stop] + closing
        yield BodyPiece(start, len(opening), opening + rest)


def value_parts(body: bytes, at: int, size: int = PIECE_BYTES) -> Iterator[JsonPart]:
    """Yield the parts of the JSON value that begins at `at`. Each has about `size` bytes."""
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

    The text ends inside the innermost list or object, with a placeholder and a comma.
    """
    if not open_ones:
        return b""
    outer = b"".join(b"[" if each == ord("[") else b'{"":' for each in open_ones[:-1])
    return outer + (b"[0," if open_ones[-1] == ord("[") else b'{"":0,')


def _closed(open_ones: bytearray) -> bytes:
    """Return a text that closes these lists and objects.

    The text begins inside the innermost list or object, with a comma and a placeholder.
    """
    value = b",0" if open_ones[-1] == ord("[") else b',"":0'
    return value + b"".join(_CLOSING[each] for each in reversed(open_ones))


def _follow(open_ones: bytearray, brackets: bytes) -> bool:
    """Add opening brackets to `open_ones`, and remove those that are closed.

    The kinds of closing brackets are not compared, because a piece with a wrong bracket is not
    JSON.

    Returns:
        False if all brackets were closed at some point.
    """
    # Remove most brackets quickly, as pairs without content.
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

    Other characters replace the escapes, so the length stays the same. If the last byte would be in
    an escape, the result has one byte more.
    """
    window = body[at : at + size]
    if b"\\" not in window:
        return window
    if (len(window) - len(window.rstrip(b"\\"))) % 2:
        window = body[at : at + size + 1]
    # Replace double backslashes first. After that, a backslash before a quotation mark always
    # escapes this mark.
    return window.replace(b"\\\\", b"__").replace(b'\\"', b"__")


def _cut(body: bytes, start: int, size: int) -> _Cut | None:
    """Return the last comma outside of quoted texts in the next `size` bytes, to cut there.

    If these bytes have no such comma, the bytes after them are searched. The result is None if only
    the last `size` bytes of the body are left, or if the body is not JSON.
    """
    brackets, at, in_text = b"", start, 0
    while at + size < len(body):
        window = without_escapes(body, at, size)
        # The window is split at quotation marks. Every second part is outside of quoted texts.
        parts = window.split(b'"')
        if found := _last_comma(parts, in_text):
            return _Cut(at + found.at, brackets + found.brackets)
        # Give up the search for a comma after too many quoted texts, because it would take too
        # long.
        if len(parts) > _TEXTS_MAX:
            return None
        brackets += b"".join(parts[in_text::2]).translate(None, _NO_BRACKET)
        in_text = (in_text + len(parts) - 1) % 2
        at += len(window)
    return None


def _last_comma(parts: Sequence[bytes], outside: int) -> _Cut | None:
    """Return the last comma in the parts that are outside of quoted texts.

    Every second part is outside of quoted texts. The first of them has the index `outside`.
    """
    last = len(parts) - 1 - (len(parts) - 1 - outside) % 2
    for index in range(last, max(-1, last - _TEXTS_MAX), -2):
        if (comma := parts[index].rfind(b",")) >= 0:
            before = [*parts[outside:index:2], parts[index][:comma]]
            brackets = b"".join(before).translate(None, _NO_BRACKET)
            return _Cut(sum(map(len, parts[:index])) + index + comma, brackets)
    return None
