import pytest

from app.domain.subscription import DeliveryPolicy
from workers.delivery.pace import Pace
from workers.delivery.share import Share
from workers.delivery.stall_watchdog import HANG_S, QUIET_S, Pulse


def test_who_was_not_alive_for_long_hears_first_what_it_has_lost() -> None:
    pulse = Pulse()
    assert not pulse.beat(0.0)
    woke = HANG_S + 5
    assert pulse.wait(woke) == QUIET_S
    assert pulse.beat(woke)
    assert not pulse.beat(woke + 0.5)
    assert pulse.wait(woke + 0.5) == pytest.approx(QUIET_S - 0.5)
    assert not pulse.beat(woke + QUIET_S)
    assert pulse.wait(woke + QUIET_S) == 0


def test_who_beats_in_time_waits_for_nothing() -> None:
    pulse = Pulse()
    for second in range(10):
        assert not pulse.beat(second)
        assert pulse.wait(second + 0.9) == 0


def test_nothing_is_sent_after_a_hang_before_the_next_beats() -> None:
    pulse = Pulse()
    pace = Pace(DeliveryPolicy(rate=100), 0.0, pulse=pulse)
    pace.share(Share.owned(100, {0}, 2), 0.0)
    pulse.beat(0.0)
    assert pace.wait(1.0) == 0
    assert pace.wait(HANG_S + 1) > 0
