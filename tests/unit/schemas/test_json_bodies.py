import pytest

from app.domain.errors import MessageInvalidError
from app.schemas.json_bodies import LEVELS_MAX, json_body

DEEPEST = b"[" * LEVELS_MAX + b"]" * LEVELS_MAX


def problem(body: bytes) -> str:
    """What is said of the message, in one line."""
    with pytest.raises(MessageInvalidError) as refused:
        json_body(body)
    (said,) = refused.value.details
    assert said.path == "message"
    return said.message


@pytest.mark.parametrize(
    "body",
    [
        b"null",
        b" -0.0e+10\r\n",
        b'"\xf0\x9f\x98\x80"',
        b'"\\ud83d\\ude00"',
        b'{"a":1,"a":2}',
        DEEPEST,
    ],
    ids=["null", "number", "emoji", "surrogate pair", "same name", "deepest"],
)
def test_takes_json_of_every_kind(body: bytes) -> None:
    json_body(body)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "is empty"),
        (b" \n", "is not JSON"),
        (b"hello", "is not JSON: unexpected character, expected a JSON value: line 1 column 1"),
        (b'{"a": 1,\n"b"}', "line 2 column 4"),
        (b"{} {}", "is not JSON: unexpected content after document"),
        (b"{'a': 1}", "is not JSON"),
        (b"[NaN]", "is not JSON"),
        (b"-Infinity", "is not JSON"),
        (b'"\x01"', "is not JSON: unexpected control character"),
        (b'"\xff"', "is not JSON: it is not UTF-8"),
        (b'"\xed\xa0\x80"', "is not JSON: it is not UTF-8"),
        ('{"a":1}'.encode("utf-16"), "is not JSON: it is not UTF-8"),
    ],
)
def test_says_where_a_text_is_not_json(body: bytes, says: str) -> None:
    assert says in problem(body)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"[" + DEEPEST + b"]", "is nested deeper than 1024 levels"),
        (b"[1e400]", "has a number beyond the range of a double: line 1 column 2"),
        (b"9" * 400, "has a number beyond the range of a double"),
        (b'["\\ud83d"]', "has half of a surrogate pair"),
        (b'["\\ud83dx"]', "has half of a surrogate pair"),
        (b'["\\ud83d\\u0041"]', "has half of a surrogate pair"),
        (b'["\\ude00"]', "has half of a surrogate pair"),
        (b"\xef\xbb\xbf{}", "must not begin with a byte order mark"),
    ],
)
def test_says_what_json_cannot_be_read_by_all_that_look_at_messages(body: bytes, says: str) -> None:
    assert problem(body).startswith(says)
    assert "is not JSON" not in problem(body)
