"""What providers answer, and for how long their tokens are used."""

import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.oauth import a_provider
from workers.delivery.oauth.token import (
    LIFETIME_MAX_S,
    TOKEN_MAX,
    Issued,
    TokenRequestError,
    access_token,
    error_in,
    issued_in,
    pause_s,
)

MEMBERS = st.sampled_from(["access_token", "token_type", "expires_in", "error"])
VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("Bearer")
MINUTE = 60.0
HOUR = 60 * MINUTE


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
    name, value = access_token(found, serial=1, now=0.0, dice=0.5).header
    assert name == b"Authorization"
    assert value.isascii()
    assert value.decode().isprintable()


def test_of_an_error_only_known_codes_are_repeated() -> None:
    assert error_in(b'{"error": "invalid_client", "error_description": "s3cr3t"}') == (
        "invalid_client"
    )
    for body in (b'{"error": "s3cr3t"}', b'{"error": 7}', b"[]", b"", b'{"error": ["a"]}'):
        assert error_in(body) == ""


@pytest.mark.parametrize("dice", [0.0, 0.5, 0.999])
@pytest.mark.parametrize("lifetime_s", [1.0, 30.0, 5 * MINUTE, HOUR, 24 * HOUR])
def test_a_token_is_renewed_well_before_it_ends_and_not_used_at_its_very_end(
    lifetime_s: float, dice: float
) -> None:
    token = access_token(Issued("t", lifetime_s), serial=1, now=100.0, dice=dice)
    end = 100.0 + lifetime_s
    assert 100.0 + lifetime_s / 2 < token.renewed_at < token.ends_at < end
    assert end - token.renewed_at <= 2 * MINUTE
    assert end - token.ends_at <= 1.0


def test_those_that_were_issued_together_are_not_renewed_together() -> None:
    tokens = [access_token(Issued("t", HOUR), serial=1, now=0.0, dice=n / 10) for n in range(10)]
    assert len({token.renewed_at for token in tokens}) == 10


def test_a_token_without_a_lifetime_is_used_until_it_is_refused() -> None:
    token = access_token(Issued("t"), serial=1, now=0.0, dice=0.5)
    assert token.renewed_at == token.ends_at == float("inf")


def test_a_token_is_not_in_what_is_logged_of_it() -> None:
    assert "t-1" not in repr(access_token(Issued("t-1"), serial=1, now=0.0, dice=0.5))


def test_pauses_double_from_the_first_to_the_longest() -> None:
    provider = a_provider(initial_delay=timedelta(seconds=1), delay_max=timedelta(seconds=30))
    pauses = [pause_s(provider, failures=n, dice=0.5) for n in (1, 2, 3, 5, 6, 7, 10**6)]
    assert pauses == [1, 2, 4, 16, 30, 30, 30]


def test_pauses_differ_by_a_tenth_to_either_side() -> None:
    provider = a_provider(initial_delay=timedelta(seconds=1))
    assert pause_s(provider, failures=1, dice=0.0) == pytest.approx(0.9)
    assert pause_s(provider, failures=1, dice=1.0) == pytest.approx(1.1)


def test_there_is_a_pause_even_where_none_is_asked_for() -> None:
    provider = a_provider(initial_delay=timedelta(), delay_max=timedelta())
    assert pause_s(provider, failures=9, dice=0.5) == pytest.approx(0.1)
