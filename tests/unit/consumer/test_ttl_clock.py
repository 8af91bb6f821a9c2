"""The clock of times to live, which is paused while nobody may send."""

from workers.consumer.schedule.ttl_clock import TtlClock


def test_it_shows_the_time_until_it_is_stopped() -> None:
    clock = TtlClock()
    assert (clock.at(7, now=5), clock.is_paused) == (7, False)


def test_it_shows_less_by_as_long_as_it_stood() -> None:
    clock = TtlClock()
    clock.pause(10, until=15)
    assert (clock.is_paused, clock.at(12, now=12), clock.at(40, now=40)) == (True, 10, 10)
    clock.resume(40)
    assert (clock.is_paused, clock.at(45, now=45)) == (False, 15)
    clock.pause(50, until=60)
    clock.resume(55)
    assert clock.at(55, now=55) == 20


def test_it_runs_at_the_earliest_when_it_is_said_to() -> None:
    clock = TtlClock()
    clock.pause(10, until=15)
    assert clock.at(14, now=11) == 10
    assert clock.at(21, now=11) == 16
    # Not yet, but it may be any time.
    assert clock.at(21, now=18) == 13


def test_stopped_again_it_stands_since_the_first_time() -> None:
    clock = TtlClock()
    clock.pause(10, until=15)
    clock.pause(16, until=30)
    assert clock.at(30, now=20) == 10


def test_one_that_runs_goes_on_running() -> None:
    clock = TtlClock()
    clock.resume(10)
    assert clock.at(10, now=10) == 10
