"""Large messages that are checked as JSON in pieces: the same ones are accepted."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.errors import MessageInvalidError
from app.json_reading import is_json
from app.schemas.json_bodies import LEVELS_MAX, WHOLE_BYTES_MAX, check_json_body, json_body
from app.schemas.json_pieces import PIECE_BYTES, pieces
from tests.fakes.turns import turns_beside

# What separates and encloses values, and what may be mistaken for that.
TOKENS = [*'[]{},:"\\', '\\"', "\\\\", '""', ",,", "1", "null", " ", '"a":', "é", "\\u0041"]

values = st.recursive(
    st.none() | st.integers(-9, 9) | st.text('a,"\\[]{}:é', max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("a,{", max_size=2), inner),
    max_leaves=30,
)


@st.composite
def spoilt(draw: st.DrawFn) -> bytes:
    """JSON with something put in, taken out or repeated somewhere, or as it is."""
    text = orjson.dumps(draw(values)).decode()
    for _ in range(draw(st.integers(0, 2))):
        start = draw(st.integers(0, len(text)))
        end = start + draw(st.integers(0, 3))
        text = text[:start] + draw(st.sampled_from(["", text[start:end] * 2, *TOKENS])) + text[end:]
    return text.encode()


def accepted(body: bytes, size: int) -> bool:
    return all(is_json(piece.text) for piece in pieces(body, size))


@given(spoilt(), st.integers(1, 12))
def test_a_text_is_json_if_all_its_pieces_are(body: bytes, size: int) -> None:
    assert accepted(body, size) is is_json(body)


@given(st.lists(st.sampled_from(TOKENS)).map("".join), st.integers(1, 6))
def test_any_tokens_are_judged_as_the_whole_is(text: str, size: int) -> None:
    assert accepted(text.encode(), size) is is_json(text.encode())


@given(spoilt(), st.integers(1, 12))
def test_pieces_are_the_text_between_its_commas(body: bytes, size: int) -> None:
    found = list(pieces(body, size))
    ends = [piece.start - 1 for piece in found[1:]] + [len(body)]
    assert all(body[end : end + 1] == b"," for end in ends[:-1])
    for piece, end in zip(found, ends, strict=True):
        assert piece.text[piece.added :].startswith(body[piece.start : end])


@pytest.mark.parametrize("levels", [LEVELS_MAX, LEVELS_MAX + 1])
def test_no_more_levels_are_accepted_than_in_one_piece(levels: int) -> None:
    body = b"[1," * levels + b"1" + b"]" * levels
    assert accepted(body, 100) is is_json(body) is (levels <= LEVELS_MAX)


def listed(item: bytes) -> Callable[[], bytes]:
    count = 2_000_000 // (len(item) + 1)
    return lambda: b"[" + (item + b",") * (count - 1) + item + b"]"


LARGE: Final[Mapping[str, Callable[[], bytes]]] = {
    "numbers": listed(b"1"),
    "lists": listed(b"[]"),
    "deep lists": listed(b"[" * 1_000 + b"]" * 1_000),
    "deep objects": listed(b'{"a":' * 500 + b"1" + b"}" * 500),
    "objects": listed(b'{"a":{"b":{}}}'),
    "texts": listed(b'"a,[\\"\\\\"'),
    "members": lambda: b"{" + b",".join(b'"%d":1' % n for n in range(180_000)) + b"}",
}


@cache
def large(name: str) -> bytes:
    return LARGE[name]()


@pytest.mark.parametrize("name", LARGE)
def test_no_piece_of_a_large_message_is_much_larger_than_it_should_be(name: str) -> None:
    body = large(name)
    sizes = [len(piece.text) for piece in pieces(body)]
    assert max(sizes) < PIECE_BYTES + 10_000
    assert len(sizes) >= len(body) / PIECE_BYTES


async def test_others_have_their_turn_while_a_large_message_is_checked() -> None:
    body = large("lists")
    assert await turns_beside(check_json_body(body)) >= len(body) // PIECE_BYTES
    small = b"[" + b" " * (WHOLE_BYTES_MAX - 2) + b"]"
    assert await turns_beside(check_json_body(small)) <= 1


async def problem(body: bytes) -> str:
    with pytest.raises(MessageInvalidError) as refused:
        await check_json_body(body)
    return told(refused.value)


def told(refused: MessageInvalidError) -> str:
    (said,) = refused.details
    return said.message


@pytest.mark.parametrize("wrong", ["x", '"\\ud800"', "1e999", "[" * 1_025, "{1}", '"\x01"', "}"])
@pytest.mark.parametrize("before", [10, 60_000])
async def test_what_is_wrong_is_said_with_its_place_in_the_whole(wrong: str, before: int) -> None:
    body = ("[" + '"é",\n' * before + wrong + ",1" * 100_000 + "]").encode()
    with pytest.raises(MessageInvalidError) as refused:
        json_body(body)
    assert await problem(body) == told(refused.value)


async def test_a_large_message_that_is_no_utf_8_is_told_so() -> None:
    body = b"[" + b"1," * 100_000 + b'"\xff"]'
    assert "is not UTF-8" in await problem(body)
