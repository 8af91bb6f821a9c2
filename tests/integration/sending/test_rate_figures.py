"""The published figures, on simulated time: how soon the rate follows its subscriber."""

from collections.abc import Sequence
from itertools import product

import pytest

from tests.benchmarks import rate_figures
from tests.benchmarks.rate_figures import PartialTrouble
from tests.benchmarks.rate_makers import OURS, a_pace
from tests.benchmarks.rate_model import Subscriber, simulate


def test_a_new_subscription_reaches_90_percent_of_400_a_second_within_8_s() -> None:
    assert rate_figures.start(OURS) <= 8


# Of several lengths: when the next probe is due makes the difference.
@pytest.mark.parametrize("length", [60.0, 61.5, 63.0, 64.5])
def test_an_outage_of_a_minute_costs_little_and_is_over_within_15_s(length: float) -> None:
    figures = rate_figures.outage(OURS, length)
    assert figures.per_second <= 2
    assert figures.recovery_s <= 15
    # Two seconds at the limit, until most of the attempts have failed for so long.
    assert figures.requests <= 2 * rate_figures.LIMIT


@pytest.mark.parametrize("share", [0.5, 0.25, 0.05])
def test_what_a_small_subscriber_takes_is_used_and_little_of_it_refused(share: float) -> None:
    figures = rate_figures.capacity(OURS, share, since_s=20.0)
    assert figures.used >= 0.9
    assert figures.refused <= 0.05


@pytest.mark.parametrize("share", [0.5, 0.05])
@pytest.mark.parametrize("latency_s", [0.5, 2.0])
def test_a_small_subscriber_that_answers_late_is_not_flooded(
    share: float, latency_s: float
) -> None:
    figures = rate_figures.capacity(OURS, share, since_s=60.0, latency_s=latency_s)
    assert figures.used >= 0.9
    assert figures.refused <= 0.05


# Chance matters where attempts are few, so there are more seeds; the last are a lot of work.
PARTIAL = [
    (10, (3.0, 28.0, 120.0), 10),
    (100, (3.0, 28.0, 120.0), 3),
    (400, (3.0, 28.0, 120.0), 2),
    pytest.param(5_000, (20.0,), 1, marks=pytest.mark.long),
]


@pytest.mark.parametrize("share", [0.1, 0.3, 1.0])
@pytest.mark.parametrize(("limit", "lengths_s", "seeds"), PARTIAL)
def test_after_some_attempts_failed_the_rate_is_back_within_20_s(
    limit: int, lengths_s: Sequence[float], seeds: int, share: float
) -> None:
    found = {}
    for length_s, seed in product(lengths_s, range(seeds)):
        case = PartialTrouble(limit=limit, share=share, length_s=length_s)
        figures = rate_figures.partial(OURS, case, seed=seed, patience_s=22.0)
        found[length_s, seed] = figures.recovery_s
    assert {run: took for run, took in found.items() if took > 20} == {}


def test_where_one_attempt_in_ten_fails_two_thirds_of_the_limit_are_sent() -> None:
    case = PartialTrouble(limit=400, share=0.1, length_s=28.0)
    assert rate_figures.partial(OURS, case, seed=1, patience_s=1.0).sent >= 0.6


def test_a_slow_subscriber_that_queues_is_not_sent_more_than_it_answers() -> None:
    subscriber = Subscriber(capacity=200, queues=True)
    curve = simulate(a_pace(), subscriber, seconds=60)
    assert curve.count_taken(20, 60) / 40 >= 0.95 * 200
    assert curve.refused_ratio(0, 60) == 0


def test_a_flaky_subscriber_that_fails_one_in_two_hundred_gets_its_whole_limit() -> None:
    curve = simulate(a_pace(), Subscriber(fails_each=200), seconds=30)
    assert curve.count(20, 30) >= 0.97 * 4_000


def test_an_outage_of_ten_minutes_ends_within_the_longest_gap() -> None:
    figures = rate_figures.outage(OURS, 600.0)
    assert figures.per_second <= 0.1
    assert figures.recovery_s <= 60 + 8
