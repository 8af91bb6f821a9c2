"""Cuts large JSON into pieces, so that it can be checked a piece at a time.

To check a whole message at once would delay all other work: orjson creates the values, and holds
the interpreter's lock all the time.
"""

import re
from collections.abc import Iterator
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
    """A piece of a larger JSON text. It begins at `start` in that text, and is valid JSON itself.

    The first `added` bytes open the containers that are open in the larger text.
    """

    start: int
    added: int
    text: bytes


class _Cut(NamedTuple):
    # The position of a comma outside of texts, and the brackets before this comma.
    at: int
    brackets: bytes


def pieces(body: bytes, size: int = PIECE_BYTES) -> Iterator[BodyPiece]:
    """Yield pieces of about `size` bytes. `body` is JSON if each piece is JSON.

    Each cut is behind a comma. Both pieces have this comma, with a value in place of the values on
    the other side.
    """
    open_ones = bytearray()
    start = 0
    while True:
        opening = _opening(open_ones)
        cut = _cut(body, start, size)
        if cut is None or not _follow(open_ones, cut.brackets):
            # Yield the rest. It is not JSON if the comma is outside of all containers.
            yield BodyPiece(start, len(opening), opening + body[start:])
            return
        yield BodyPiece(start, len(opening), opening + body[start : cut.at] + _closed(open_ones))
        start = cut.at + 1


def _opening(open_ones: bytearray) -> bytes:
    """Return the text that opens these containers, up to a comma in the innermost one."""
    if not open_ones:
        return b""
    outer = b"".join(b"[" if each == ord("[") else b'{"":' for each in open_ones[:-1])
    return outer + (b"[0," if open_ones[-1] == ord("[") else b'{"":0,')


def _closed(open_ones: bytearray) -> bytes:
    """Return the text that closes these containers, from a comma in the innermost one on."""
    value = b",0" if open_ones[-1] == ord("[") else b',"":0'
    return value + b"".join(_CLOSING[each] for each in reversed(open_ones))


def _follow(open_ones: bytearray, brackets: bytes) -> bool:
    """Apply the brackets; return whether any container is open after all of them.

    The kinds of closing brackets are not compared: if one is wrong, its piece is not JSON.
    """
    # Remove most pairs of brackets quickly.
    for _ in range(3):
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    for run in _RUNS(brackets):
        if run[0] in _CLOSING:
            open_ones += run
        elif len(run) > len(open_ones):
            return False
        else:
            del open_ones[-len(run) :]
    return bool(open_ones)


def _cut(body: bytes, start: int, size: int) -> _Cut | None:
    """Return the last comma in the next `size` bytes, or in more bytes if there is none.

    None means that there is no comma up to the end of `body`.
    """
    end = start + size
    while end < len(body):
        if found := _last_comma(body[start:end]):
            return found._replace(at=start + found.at)
        end += end - start
    return None


def _last_comma(window: bytes) -> _Cut | None:
    """Return the last comma outside of texts. `window` must begin outside of texts."""
    if b"\\" in window:
        # Replace double backslashes first. After that, a backslash before a quotation mark always
        # escapes it.
        window = window.replace(b"\\\\", b"__").replace(b'\\"', b"__")
    parts = window.split(b'"')
    at = len(window) + 1
    for index in range(len(parts) - 1, max(-1, len(parts) - _TEXTS_MAX), -1):
        at -= len(parts[index]) + 1
        if index % 2 == 0 and (place := parts[index].rfind(b",")) >= 0:
            before = [*parts[:index:2], parts[index][:place]]
            return _Cut(at + place, b"".join(before).translate(None, _NO_BRACKET))
    return None
