from datetime import timedelta

import pytest

from app.cli.commands.up.restart import RestartPolicy, Restarts

POLICY = RestartPolicy()


def after(*uptimes_s: float) -> Restarts:
    restarts = Restarts(POLICY)
    for uptime in uptimes_s:
        restarts = restarts.died(uptime=timedelta(seconds=uptime))
    return restarts


def test_the_first_start_does_not_wait() -> None:
    assert after().delay == timedelta()


@pytest.mark.parametrize(
    ("deaths", "seconds"), [(1, 1), (2, 2), (3, 4), (4, 8), (5, 16), (6, 30), (7, 30), (1000, 30)]
)
def test_each_death_in_a_row_doubles_the_wait_up_to_half_a_minute(
    deaths: int, seconds: int
) -> None:
    assert after(*[0.1] * deaths).delay == timedelta(seconds=seconds)


def test_a_process_that_was_well_for_a_minute_starts_again_after_a_second() -> None:
    assert after(0, 0, 0, 60).delay == timedelta(seconds=1)


def test_a_process_that_was_well_for_less_than_a_minute_is_not_forgiven() -> None:
    assert after(0, 0, 0, 59.9).delay == timedelta(seconds=8)


def test_a_process_that_dies_too_often_in_a_row_is_not_started_again() -> None:
    policy = RestartPolicy(deaths_max=2)
    once = Restarts(policy).died(uptime=timedelta())
    assert not once.are_over
    assert once.died(uptime=timedelta()).are_over
    assert not once.died(uptime=policy.settled_after).are_over


def test_where_no_number_is_set_it_always_is() -> None:
    assert not after(*[0.0] * 1000).are_over
