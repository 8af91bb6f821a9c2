from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.backoff import backoff_delay, retry_delay
from app.domain.subscription import DeliveryPolicy

MIDDLE = 0.5


def a_policy(backoff_ms: int, multiplier: float = 1.0, cap_s: int = 600) -> DeliveryPolicy:
    return DeliveryPolicy(
        message_backoff=timedelta(milliseconds=backoff_ms),
        backoff_multiplier=multiplier,
        backoff_interval_max=timedelta(seconds=cap_s),
    )


@pytest.mark.parametrize(
    ("policy", "attempt", "jitter", "delay_ms"),
    [
        (a_policy(100), 1, MIDDLE, 100),
        (a_policy(100), 7, MIDDLE, 100),
        (a_policy(100, 2), 1, MIDDLE, 100),
        (a_policy(100, 2), 2, MIDDLE, 200),
        (a_policy(100, 2), 5, MIDDLE, 1600),
        (a_policy(100, 1.5), 3, MIDDLE, 225),
        (a_policy(100, 2, cap_s=1), 4, MIDDLE, 800),
        (a_policy(100, 2, cap_s=1), 5, MIDDLE, 1000),
        (a_policy(5000, 1, cap_s=1), 1, MIDDLE, 1000),
        (a_policy(100), 1, 0.0, 90),
        (a_policy(100), 1, 0.25, 95),
        (a_policy(100), 1, 0.75, 105),
        (a_policy(0, 10), 400, MIDDLE, 0),
        (a_policy(1, 10), 400, MIDDLE, 600_000),
        (a_policy(600_000, 10), 10_000, MIDDLE, 600_000),
        (a_policy(100, 1.001), 1_000_000, MIDDLE, 600_000),
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
    delay = backoff_delay(policy, attempt=attempt, jitter=MIDDLE)
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
    delay = retry_delay(policy, backoffs=backoffs, retry_after=asked, jitter=MIDDLE)
    assert delay == timedelta(milliseconds=delay_ms)


@given(
    attempt=st.integers(1, 10_000),
    jitter=st.floats(0, 1, exclude_max=True),
    multiplier=st.floats(1, 10),
    backoff_ms=st.integers(0, 600_000),
)
def test_is_never_more_than_a_tenth_off_what_it_would_be_without_jitter(
    attempt: int, jitter: float, multiplier: float, backoff_ms: int
) -> None:
    policy = a_policy(backoff_ms, multiplier)
    middle = backoff_delay(policy, attempt=attempt, jitter=MIDDLE)
    delay = backoff_delay(policy, attempt=attempt, jitter=jitter)
    assert abs(delay - middle) <= middle * 0.1 + timedelta(microseconds=1)
