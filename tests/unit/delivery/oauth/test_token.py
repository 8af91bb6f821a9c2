"""For how long the tokens of providers are used, and when the next one is requested."""

from datetime import timedelta

import pytest

from app.token_answers import Issued
from tests.fakes.oauth import a_provider
from workers.delivery.oauth.token import access_token, pause_s

MINUTE = 60.0
HOUR = 60 * MINUTE


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
