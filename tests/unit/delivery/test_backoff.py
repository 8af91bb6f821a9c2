from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.backoff import backoff_delay, retry_delay
from app.domain.catalogue.subscription import DeliveryPolicy

NONE = 0.0


def a_policy(backoff_ms: int, multiplier: float = 1.0, cap_s: int = 600) -> DeliveryPolicy:
    return DeliveryPolicy(
        message_backoff=timedelta(milliseconds=backoff_ms),
        backoff_multiplier=multiplier,
        backoff_interval_max=timedelta(seconds=cap_s),
    )


@pytest.mark.parametrize(
    ("policy", "attempt", "jitter", "delay_ms"),
    [
        (a_policy(100), 1, NONE, 100),
        (a_policy(100), 7, NONE, 100),
        (a_policy(100, 2), 1, NONE, 100),
        (a_policy(100, 2), 2, NONE, 200),
        (a_policy(100, 2), 5, NONE, 1600),
        (a_policy(100, 1.5), 3, NONE, 225),
        (a_policy(100, 2, cap_s=1), 4, NONE, 800),
        (a_policy(100, 2, cap_s=1), 5, NONE, 1000),
        (a_policy(5000, 1, cap_s=1), 1, NONE, 1000),
        (a_policy(100), 1, 0.25, 102.5),
        (a_policy(100), 1, 0.5, 105),
        (a_policy(100, 2, cap_s=1), 9, 0.5, 1050),
        (a_policy(0, 10), 400, NONE, 0),
        (a_policy(1, 10), 400, NONE, 600_000),
        (a_policy(600_000, 10), 10_000, NONE, 600_000),
        (a_policy(100, 1.001), 1_000_000, NONE, 600_000),
    ],
)
def test_grows_from_the_first_delay_to_the_cap(
    policy: DeliveryPolicy, attempt: int, jitter: float, delay_ms: float
) -> None:
    delay = backoff_delay(policy, attempt=attempt, jitter=jitter)
    assert delay == timedelta(milliseconds=delay_ms)


@pytest.mark.parametrize(("attempt", "delay_ms"), [(1, 0), (2, 100), (3, 200), (4, 400)])
def test_an_immediate_first_retry_puts_off_the_growth_by_one(attempt: int, delay_ms: float) -> None:
    policy = replace(a_policy(100, 2), first_retry_immediate=True)
    delay = backoff_delay(policy, attempt=attempt, jitter=NONE)
    assert delay == timedelta(milliseconds=delay_ms)


@pytest.mark.parametrize("immediate", [False, True])
@pytest.mark.parametrize(
    ("backoffs", "asked_ms", "delay_ms"), [(0, 0, 100), (1, 50, 100), (0, 500, 500), (1, 500, 500)]
)
def test_who_asks_to_come_again_at_once_is_not_stormed(
    backoffs: int, asked_ms: float, delay_ms: float, *, immediate: bool
) -> None:
    policy = replace(a_policy(100, 2), first_retry_immediate=immediate)
    asked = timedelta(milliseconds=asked_ms)
    delay = retry_delay(policy, backoffs=backoffs, retry_after=asked, jitter=NONE)
    assert delay == timedelta(milliseconds=delay_ms)


@given(
    attempt=st.integers(1, 10_000),
    jitter=st.floats(0, 1, exclude_max=True),
    multiplier=st.floats(1, 10),
    backoff_ms=st.integers(0, 600_000),
)
def test_jitter_adds_up_to_a_tenth_and_takes_nothing_away(
    attempt: int, jitter: float, multiplier: float, backoff_ms: int
) -> None:
    policy = a_policy(backoff_ms, multiplier)
    least = backoff_delay(policy, attempt=attempt, jitter=NONE)
    delay = backoff_delay(policy, attempt=attempt, jitter=jitter)
    assert least <= delay <= least * 1.1 + timedelta(microseconds=1)
