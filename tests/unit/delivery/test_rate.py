from bisect import bisect_right
from collections import deque
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.delivery.rate import CATCH_UP_S, RateLimiter

# Slack for the rounding of sums of floats, far below any timer.
EPSILON = 1e-9

RATES = st.one_of(st.floats(0.1, 5), st.integers(1, 50).map(float), st.floats(50, 120))


def send_all(
    limiter: RateLimiter, *, start: float, seconds: float, lateness: float = 0.0
) -> list[float]:
    """Times of the sends of a sender that always has one more, and wakes `lateness` too late."""
    now, times = start, list[float]()
    while now < start + seconds:
        if (wait := limiter.wait(now)) > 0:
            now += max(wait, EPSILON) + lateness
            continue
        limiter.sent(now)
        times.append(now)
    return times


def most_in_a_second(times: list[float]) -> int:
    window, most = deque[float](), 0
    for time in times:
        window.append(time)
        while window[0] <= time - 1 + EPSILON:
            window.popleft()
        most = max(most, len(window))
    return most


def test_the_first_send_leaves_at_once() -> None:
    assert RateLimiter(1).wait(1000.0) == 0


@pytest.mark.parametrize("rate", [1, 2, 10, 50, 400, 2000])
@pytest.mark.parametrize("lateness", [0.0, 0.0005, 0.004])
def test_reaches_its_rate_and_never_more(rate: int, lateness: float) -> None:
    times = send_all(RateLimiter(rate), start=5.0, seconds=10, lateness=lateness)
    assert most_in_a_second(times) <= rate
    assert len(times) >= rate * 10 * 0.985 - 1


@pytest.mark.parametrize(("rate", "expected"), [(0.5, 5), (0.1, 1), (0.25, 3)])
def test_a_rate_below_one_leaves_its_whole_gap(rate: float, expected: int) -> None:
    times = send_all(RateLimiter(rate), start=0.0, seconds=10)
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert len(times) == expected
    assert all(gap >= 1 / rate - EPSILON for gap in gaps)


def test_spreads_the_sends_of_a_second() -> None:
    limiter = RateLimiter(400)
    times = send_all(limiter, start=0.0, seconds=1)
    at_once = sum(1 for time in times if time < EPSILON)
    assert at_once <= 400 * CATCH_UP_S + 1
    assert sum(1 for time in times if time < 0.5) <= 200 + 5


def test_saves_nothing_up_while_idle() -> None:
    limiter = RateLimiter(100)
    send_all(limiter, start=0.0, seconds=1)
    burst = send_all(limiter, start=60.0, seconds=0.1)
    assert len(burst) <= 100 * (0.1 + CATCH_UP_S) + 1


def test_a_lower_rate_counts_what_was_sent_before_the_change() -> None:
    limiter = RateLimiter(400)
    times = send_all(limiter, start=0.0, seconds=1)
    limiter.set_rate(10)
    assert limiter.wait(times[-1] + 0.2) == pytest.approx(times[-10] + 1 - times[-1] - 0.2)


def test_a_higher_rate_takes_effect_at_once() -> None:
    limiter = RateLimiter(0.1)
    limiter.sent(0.0)
    assert limiter.wait(0.5) == pytest.approx(9.5 - CATCH_UP_S, abs=CATCH_UP_S)
    limiter.set_rate(100)
    assert limiter.wait(0.5) == 0


@pytest.mark.parametrize("rate", [0, -1])
def test_a_rate_is_greater_than_zero(rate: float) -> None:
    with pytest.raises(ValueError, match="greater than zero"):
        RateLimiter(rate)


@given(
    changes=st.lists(st.tuples(RATES, st.floats(0, 2)), min_size=1, max_size=4),
    lateness=st.sampled_from([0.0, 0.0003, 0.002, 0.03]),
)
def test_no_second_has_more_than_the_rate_across_changes(
    changes: list[tuple[float, float]], lateness: float
) -> None:
    limiter, start, history = RateLimiter(changes[0][0]), 100.0, list[float]()
    for rate, seconds in changes:
        limiter.set_rate(rate)
        for time in send_all(limiter, start=start, seconds=seconds, lateness=lateness):
            history.append(time)
            before = bisect_right(history, time - max(1, 1 / rate) + EPSILON)
            assert len(history) - before <= max(1, rate)
        start += seconds + lateness


def test_a_request_that_is_written_later_counts_from_then_on() -> None:
    limiter = RateLimiter(2)
    limiter.sent(0.0)
    limiter.sent(0.5)
    assert limiter.moved(0.0, 0.9)
    # Of 0.5 and 0.9, the first leaves the window at 1.5.
    assert limiter.wait(1.2) > 0.29
    assert limiter.used(1.2) == 2


def test_a_request_may_not_be_written_when_others_have_used_the_second() -> None:
    limiter = RateLimiter(2)
    limiter.sent(0.0)
    limiter.sent(1.1)
    limiter.sent(1.6)
    assert not limiter.moved(0.0, 1.7)
    assert limiter.used(1.7) == 2
    limiter.sent(2.2)
    assert not limiter.moved(1.1, 2.3)
    assert limiter.moved(1.1, 2.7)


def test_a_rate_below_one_keeps_its_gap_from_the_request_that_was_late() -> None:
    limiter = RateLimiter(0.5)
    limiter.sent(0.0)
    assert limiter.moved(0.0, 1.0)
    assert limiter.wait(2.5) > 0.4


def test_a_request_that_was_not_sent_counts_no_more() -> None:
    limiter = RateLimiter(2)
    limiter.sent(0.0)
    limiter.unsent(0.0)
    limiter.unsent(0.0)
    assert limiter.used(0.1) == 0
