import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.health.arrivals import POINTS_MAX, Arrivals, Point


def seen(*points: tuple[float, int]) -> Arrivals:
    arrivals = Arrivals()
    for at, end in points:
        arrivals.observe(at, end)
    return arrivals


def test_between_two_looks_messages_arrived_evenly() -> None:
    arrivals = seen((100, 0), (110, 50), (120, 50), (130, 60))
    assert arrivals.time_of(25) == 105
    assert arrivals.time_of(0) == 100
    # The next one came after the pause.
    assert arrivals.time_of(50) == 120
    assert arrivals.time_of(55) == 125


def test_what_is_older_than_the_first_look_is_as_old_as_that_at_least() -> None:
    assert seen((100, 500), (110, 600)).time_of(3) == 100


def test_what_has_not_arrived_would_arrive_now() -> None:
    assert seen((100, 0), (110, 50)).time_of(50) == 110


def test_nothing_is_known_of_a_partition_that_was_never_seen() -> None:
    with pytest.raises(ValueError, match="nothing is known"):
        Arrivals().time_of(0)


def test_the_log_can_tell_of_the_time_before() -> None:
    arrivals = seen((100, 500), (110, 600))
    arrivals.recall([Point(60, 300), Point(80, 400)])
    assert arrivals.time_of(350) == 70
    assert arrivals.since(350) == [(70, 350), (80, 400), (100, 500), (110, 600)]


def test_what_contradicts_what_was_seen_is_passed_over() -> None:
    arrivals = seen((100, 500), (110, 600))
    arrivals.recall([Point(90, 501), Point(105, 10)])
    assert arrivals.first == (100, 500)


def test_a_partition_that_ends_earlier_was_made_anew() -> None:
    assert seen((100, 500), (110, 3)).first == (110, 3)


def test_rates_are_of_the_time_that_is_asked_for_and_of_what_is_known() -> None:
    arrivals = seen((100, 0), (110, 100), (120, 120))
    assert arrivals.rate(110) == 2
    assert arrivals.rate(105) == pytest.approx(70 / 15)
    assert arrivals.rate(0) == 6
    assert arrivals.rate(120) is None
    assert seen((100, 0)).rate(0) is None


@given(st.lists(st.integers(0, 1_000), min_size=1, max_size=2_000))
def test_a_long_memory_stays_small_and_is_right_within_a_fifth_of_the_age(
    counts: list[int],
) -> None:
    arrivals, end, exact = Arrivals(), 0, []
    for second, count in enumerate(counts):
        end += count
        arrivals.observe(float(second), end)
        exact.append(end)
    now = len(counts) - 1
    assert len(arrivals.since(0)) <= POINTS_MAX + 1
    for second in range(0, now, max(1, now // 20)):
        found = arrivals.time_of(exact[second])
        # The message behind those of that second came later, or at the next that brought any.
        after = next((at for at in range(second, now + 1) if exact[at] > exact[second]), now)
        assert second - 0.25 * (now - second) - 1 <= found <= after + 0.25 * (now - second) + 1
