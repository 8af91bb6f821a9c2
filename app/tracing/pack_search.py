"""Finds the entries of one message in a pack, without parsing the other entries."""

import re
from collections.abc import Sequence
from typing import Any, Final

import orjson
import zstandard

from app.tracing.packs import Pack, pack_of, read_pack, text_of

_STRING: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_SOURCE: Final = rb"\[-?\d+,%(s)s,%(s)s,%(s)s\]" % {b"s": _STRING}
# The form of a pack's text up to its first row.
_HEAD: Final = re.compile(
    rb"\[%(s)s,-?\d+,-?\d+,%(s)s,\[(?:%(source)s(?:,%(source)s)*+)?\],(?=\[)"
    % {b"s": _STRING, b"source": _SOURCE},
    re.DOTALL,
)
# The form of a row's text up to the message id. A string inside of a row cannot contain this form:
# a quotation mark in a string has a backslash before it, and no letter follows the quotation mark
# at the end of a string.
_BEGINNING: Final = re.compile(rb'\[-?\d+,-?\d+,"[A-Z]+",')
_ROW: Final = re.compile(rb'\[(?:[^"\[\]]++|%s)*+\]' % _STRING, re.DOTALL)


def pack_about(value: bytes, message_id: str) -> Pack | None:
    """Return the pack in a record's value, with only the rows about one message.

    The result is None if the value is not a pack. Parsing all rows would take five times as long.
    """
    try:
        pack = _found(text_of(value), message_id)
    except (zstandard.ZstdError, ValueError, TypeError):
        return None
    return pack or _read(value, message_id)


def _found(text: bytes, message_id: str) -> Pack | None:
    """Return the pack with only the rows about the message.

    The result is None if there are no such rows, or if the pack was not written by `packed`.
    """
    head = _HEAD.match(text)
    rows = _rows(text, orjson.dumps(message_id), head.end()) if head else ()
    if head is None or not rows:
        return None
    return pack_of([*orjson.loads(text[: head.end() - 1] + b"]"), rows])


def _rows(text: bytes, wanted: bytes, begin: int) -> Sequence[Any]:
    rows, start = list[Any](), begin
    while (at := text.find(wanted, start)) >= 0:
        row = _row(text, text.rfind(b"[", begin, at), at)
        if row is not None:
            rows.append(orjson.loads(row[0]))
        start = at + 1 if row is None else row.end()
    return rows


def _row(text: bytes, first: int, at: int) -> re.Match[bytes] | None:
    """Return the row that starts at `first`, if the text at `at` is the message id of this row.

    The result is None if the text at `at` is a part of another string.
    """
    beginning = _BEGINNING.match(text, first)
    return _ROW.match(text, first) if beginning and beginning.end() == at else None


def _read(value: bytes, message_id: str) -> Pack | None:
    pack = read_pack(value)
    if pack is None:
        return None
    return pack._replace(rows=[row for row in pack.rows if row[3] == message_id])
