"""What token endpoints answer, and what is made of it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.token_answers import (
    LIFETIME_MAX_S,
    TOKEN_MAX,
    Issued,
    TokenRequestError,
    error_in,
    issued_in,
)

MEMBERS = st.sampled_from(["access_token", "token_type", "expires_in", "error"])
VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("Bearer")
HOUR = 3_600.0


def said(**members: object) -> bytes:
    return json.dumps({"access_token": "t-1", "token_type": "Bearer"} | members).encode()


@pytest.mark.parametrize(
    ("expires_in", "lifetime_s"),
    [
        (3600, HOUR),
        ("3600", HOUR),
        (90.5, 90.5),
        (0.001, 1.0),
        ("1e999", None),
        (10**30, LIFETIME_MAX_S),
        (0, None),
        (-1, None),
        ("soon", None),
        (None, None),
        (True, None),
        ([3600], None),
    ],
)
def test_a_lifetime_is_what_makes_sense_of_expires_in(
    expires_in: object, lifetime_s: float | None
) -> None:
    assert issued_in(said(expires_in=expires_in)) == Issued("t-1", lifetime_s)


@pytest.mark.parametrize("kind", ["bearer", "BEARER"])
def test_the_type_of_a_token_is_bearer_in_any_case(kind: str) -> None:
    assert issued_in(said(token_type=kind)).token == "t-1"


def test_a_token_without_a_type_is_taken_for_a_bearer() -> None:
    assert issued_in(b'{"access_token": "t-1"}') == Issued("t-1")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "not a JSON object"),
        (b"<html>", "not a JSON object"),
        (b"[]", "not a JSON object"),
        (b"\xff", "not a JSON object"),
        (b'{"access_token": ' + b"[" * 100_000, "not a JSON object"),
        (b"{}", "no usable access_token"),
        (said(access_token=7), "no usable access_token"),
        (said(access_token=""), "no usable access_token"),
        (said(access_token="a b"), "no usable access_token"),
        (said(access_token="a\r\nX-Evil: 1"), "no usable access_token"),
        (said(access_token="ż"), "no usable access_token"),
        (said(access_token="x" * (TOKEN_MAX + 1)), "no usable access_token"),
        (said(token_type="mac"), "not Bearer"),
        (said(token_type=None), "not Bearer"),
    ],
    ids=lambda each: str(each)[:40],
)
def test_what_is_no_token_is_refused_with_the_reason(body: bytes, reason: str) -> None:
    with pytest.raises(TokenRequestError) as refused:
        issued_in(body)
    assert reason in refused.value.reason


@given(
    st.binary(max_size=200)
    | st.dictionaries(MEMBERS, VALUES).map(lambda said: json.dumps(said).encode())
)
def test_whatever_is_answered_is_a_token_that_can_be_sent_or_none(body: bytes) -> None:
    assert error_in(body) == "" or error_in(body).isidentifier()
    try:
        found = issued_in(body)
    except TokenRequestError:
        return
    assert found.token.isascii()
    assert found.token.isprintable()
    assert " " not in found.token


def test_of_an_error_only_known_codes_are_repeated() -> None:
    assert error_in(b'{"error": "invalid_client", "error_description": "s3cr3t"}') == (
        "invalid_client"
    )
    for body in (b'{"error": "s3cr3t"}', b'{"error": 7}', b"[]", b"", b'{"error": ["a"]}'):
        assert error_in(body) == ""
