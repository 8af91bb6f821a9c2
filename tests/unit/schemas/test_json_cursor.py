"""Values in large JSON that are found a window at a time: the same ones as in one go."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.domain.json_text import skip_space, value_end
from app.json_reading import is_json
from app.schemas.json_cursor import JsonCursor, JsonTextError
from app.schemas.json_pieces import PIECE_BYTES
from tests.fakes.turns import turns_beside
from tests.unit.schemas.test_json_pieces import spoilt

SPACES = st.text(" \t\n\r", max_size=3)


async def elements(body: bytes, piece_bytes: int = PIECE_BYTES) -> list[bytes]:
    """The values of a list, as they stand there."""
    cursor = JsonCursor(body, piece_bytes=piece_bytes)
    found: list[bytes] = []
    if not await cursor.passes("["):
        raise cursor.wrong("no list")
    is_last = await cursor.next() == "]"
    while not is_last:
        found.append(await cursor.value())
        is_last = not await cursor.passes(",")
    if not await cursor.passes("]") or await cursor.next():
        raise cursor.wrong("something behind it")
    return found


def elements_in_one_go(body: bytes) -> list[bytes]:
    """The same, by the whole text."""
    text, found, at = body.decode(), [], 1
    at = skip_space(text, at)
    while text[at] != "]":
        end = value_end(text, at)
        found.append(text[at:end].encode())
        at = skip_space(text, end)
        at = skip_space(text, at + 1) if text[at] == "," else at
    return found


@given(st.lists(st.tuples(SPACES, spoilt(), SPACES)), st.integers(1, 12))
@example([("", b"]null", "")], 1)
async def test_values_are_found_as_in_one_go(
    parts: list[tuple[str, bytes, str]], size: int
) -> None:
    inside = (before.encode() + value + after.encode() for before, value, after in parts)
    body = b"[" + b",".join(inside) + b"]"
    try:
        found = await elements(body, size)
    except JsonTextError:
        assert not is_json(body)
        return
    if is_json(body):
        assert found == elements_in_one_go(body)
    else:
        assert not all(map(is_json, found))


def listed(item: bytes) -> Callable[[], bytes]:
    count = 2_000_000 // (len(item) + 1)
    return lambda: b"[" + (item + b",") * (count - 1) + item + b"]"


LARGE: Final[Mapping[str, Callable[[], bytes]]] = {
    "numbers": listed(b"1"),
    "lists": listed(b"[]"),
    "objects": listed(b'{"a":{"b":{}}}'),
    "deep lists": listed(b"[" * 900 + b"]" * 900),
    "texts": listed(b'"a,[\\"\\\\"'),
    "members": lambda: b"{" + b",".join(b'"%d":1' % n for n in range(180_000)) + b"}",
    "a text": lambda: b'"' + b"a" * 2_000_000 + b'"',
    "a text of escapes": lambda: b'"' + b'\\\\\\"' * 500_000 + b'"',
    "a text of other letters": lambda: '"{}"'.format("é€" * 400_000).encode(),
    "a text in a list": lambda: b'["' + b"a" * 2_000_000 + b'"]',
    "a number": lambda: b"9" * 2_000_000,
}


@cache
def large_value(name: str) -> bytes:
    return LARGE[name]()


@pytest.mark.parametrize("name", LARGE)
async def test_large_values_are_found_between_small_ones(name: str) -> None:
    large = large_value(name)
    body = b"[1, " + large + b' ,{"a":[2]},' + large + b', "\xc3\xa9",' + large + b"]"
    assert await elements(body) == [b"1", large, b'{"a":[2]}', large, b'"\xc3\xa9"', large]


@pytest.mark.parametrize("name", ["numbers", "lists", "objects", "texts", "members", "a text"])
async def test_others_have_their_turn_while_a_large_value_is_looked_for(name: str) -> None:
    body = b"[" + large_value(name) + b"]"
    assert await turns_beside(elements(body)) >= len(body) // (4 * PIECE_BYTES)


async def test_others_have_their_turn_while_many_small_values_are_looked_for() -> None:
    body, found = large_value("objects"), list[bytes]()

    async def find() -> None:
        found.extend(await elements(body))

    assert await turns_beside(find()) >= len(body) // (4 * PIECE_BYTES)
    assert orjson.loads(body) == [orjson.loads(each) for each in found]


@pytest.mark.parametrize(
    ("body", "place"),
    [
        (b"[1,x]", 3),
        (b"[1 2]", 3),
        (b"[1", 2),
        (b"[" + b" " * 300_000 + b"x", 300_001),
        (('["é",' + '"é",' * 100_000 + "x]").encode(), 400_005),
        (b"[[" + b"1," * 999_999 + b"1}]", None),
        (b'["' + b"a" * 300_000, 1),
        (b'["\xff"]', 0),
    ],
)
async def test_what_is_wrong_is_said_with_its_place(body: bytes, place: int | None) -> None:
    with pytest.raises(JsonTextError) as wrong:
        await elements(body)
    if place is not None:
        assert str(wrong.value).endswith(f"char {place}")
