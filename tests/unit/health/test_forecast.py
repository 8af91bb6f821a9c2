"""Forecasts against what then happens, message by message, in a model of a queue."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.health.arrivals import Point
from app.domain.health.forecast import Expiry, Queue, drain_seconds, expiry

NOW = 1_000_000.0


def a_queue(*arrived: tuple[float, float], arriving: float = 0.0, output: float = 0.0) -> Queue:
    """Arrivals as (seconds ago, offset); the last one is now."""
    points = [Point(NOW - ago, offset) for ago, offset in arrived]
    return Queue(arrived=points, arrival_rate=arriving, output_rate=output)


def forecast(queue: Queue, life_s: float) -> Expiry:
    return expiry(queue, timedelta(seconds=life_s))


@dataclass
class Happened:
    first_in: float | None = None
    lost_of_waiting: int = 0


def what_happens(queue: Queue, life_s: float, until_s: float) -> Happened:
    """Takes message after message at the queue's rate, and sees which are too old by then."""
    happened, due = Happened(), 0.0
    for offset, at in messages(queue, until_s):
        deadline = at + life_s - NOW
        reached = max(due, at - NOW)
        if reached > deadline:
            if happened.first_in is None:
                happened.first_in = max(0.0, deadline)
            if offset < queue.end:
                happened.lost_of_waiting += 1
        elif queue.output_rate > 0:
            due = reached + 1 / queue.output_rate
        else:
            due = float("inf")
    return happened


def messages(queue: Queue, until_s: float) -> Iterator[tuple[int, float]]:
    offset = int(queue.front)
    for before, after in zip(queue.arrived, queue.arrived[1:], strict=False):
        while offset < after.offset:
            share = (offset - before.offset) / (after.offset - before.offset)
            yield offset, before.at + share * (after.at - before.at)
            offset += 1
    at = queue.now
    while queue.arrival_rate > 0 and (at := at + 1 / queue.arrival_rate) < NOW + until_s:
        yield offset, at
        offset += 1


def test_nothing_waits_and_nothing_is_lost() -> None:
    queue = a_queue((0, 500), arriving=10, output=10)
    assert forecast(queue, 60).first_in is None
    assert drain_seconds(queue) == 0.0


def test_a_subscriber_that_takes_nothing_loses_the_oldest_when_its_life_ends() -> None:
    found = forecast(a_queue((100, 0), (0, 1_000), arriving=10), life_s=300)
    assert found.first_in == pytest.approx(200)
    assert found.messages == pytest.approx(1_000)
    assert found.rate == pytest.approx(10)


def test_one_that_is_too_slow_loses_the_first_when_its_front_has_grown_too_old() -> None:
    # 100 a second arrive, 50 are taken: after a minute of this the front is half a minute old.
    found = forecast(a_queue((30, 1_500), (0, 4_500), arriving=100, output=50), life_s=60)
    assert found.first_in == pytest.approx(60)
    assert found.messages == 0  # what waits now is taken in time
    assert found.rate == pytest.approx(100, rel=0.01)


def test_one_that_catches_up_in_time_loses_nothing() -> None:
    queue = a_queue((50, 0), (0, 500), arriving=10, output=30)
    found = forecast(queue, life_s=60)
    assert found.first_in is None
    assert drain_seconds(queue) == pytest.approx(25)


def test_a_backlog_that_came_all_at_once_needs_the_rate_that_takes_it_in_its_life() -> None:
    found = forecast(a_queue((1, 0), (0, 6_000), output=10), life_s=61)
    assert found.rate == pytest.approx(6_000 / 61, rel=0.02)
    assert found.messages == pytest.approx(6_000 - 610, abs=20)


def test_what_is_overdue_is_lost_now_and_no_rate_is_said_to_save_it() -> None:
    found = forecast(a_queue((100, 0), (50, 100), (0, 200), output=1), life_s=50)
    assert found.first_in == 0.0
    assert found.rate == pytest.approx(2.0)


def test_what_never_drains_says_so() -> None:
    assert drain_seconds(a_queue((10, 0), (0, 100), arriving=10, output=10)) is None


SLOW: dict[str, tuple[Callable[[], Queue], float]] = {
    "steady": (lambda: a_queue((20, 0), (0, 800), arriving=40, output=25), 60),
    "much slower": (lambda: a_queue((20, 0), (0, 800), arriving=40, output=4), 60),
    "a burst, then quiet": (
        lambda: a_queue((40, 0), (35, 900), (0, 950), arriving=2, output=12),
        90,
    ),
    "quiet, then a burst": (
        lambda: a_queue((40, 0), (5, 40), (0, 1_500), arriving=5, output=10),
        80,
    ),
}


@pytest.mark.parametrize("case", SLOW)
def test_the_first_loss_and_the_losses_are_within_a_tenth_of_what_happens(case: str) -> None:
    make, life_s = SLOW[case]
    queue = make()
    found, happened = forecast(queue, life_s), what_happens(queue, life_s, until_s=500)
    assert happened.first_in is not None
    assert found.first_in == pytest.approx(happened.first_in, rel=0.1)
    assert found.messages == pytest.approx(happened.lost_of_waiting, rel=0.1, abs=2)


@pytest.mark.parametrize("case", SLOW)
def test_with_the_rate_that_is_named_nothing_is_lost_and_with_less_something_is(case: str) -> None:
    make, life_s = SLOW[case]
    queue = make()
    rate = forecast(queue, life_s).rate

    def lost_at(output: float) -> float | None:
        tried = Queue(arrived=queue.arrived, arrival_rate=queue.arrival_rate, output_rate=output)
        return what_happens(tried, life_s, until_s=1_000).first_in

    assert lost_at(rate * 1.02) is None
    assert lost_at(rate * 0.9) is not None


@given(
    steps=st.lists(st.tuples(st.floats(1, 50), st.integers(0, 300)), min_size=1, max_size=5),
    arriving=st.floats(0, 20),
    output=st.floats(0, 40),
    life_s=st.floats(20, 400),
)
def test_whatever_arrives_the_forecast_says_when_something_is_lost(
    steps: list[tuple[float, int]], arriving: float, output: float, life_s: float
) -> None:
    ago = sum(span for span, _ in steps)
    arrived, offset = [(ago, 0.0)], 0.0
    for span, count in steps:
        ago, offset = ago - span, offset + count
        arrived.append((max(0.0, ago), offset))
    queue = a_queue(*arrived, arriving=arriving, output=output)
    found = forecast(queue, life_s)
    happened = what_happens(queue, life_s, until_s=1_000)
    if found.first_in is not None and found.first_in < 1_000 - life_s:
        # Of a fluid, half a message is lost a moment before a whole one is.
        assert found.messages <= happened.lost_of_waiting + 2 + 0.02 * queue.waiting
    if happened.first_in is not None and happened.lost_of_waiting > 2:
        assert found.first_in is not None
