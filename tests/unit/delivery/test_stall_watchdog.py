import pytest

from app.domain.catalogue.subscription import DeliveryPolicy
from workers.delivery.pace import Pace
from workers.delivery.share import Share
from workers.delivery.stall_watchdog import QUIET_S, STALL_S, StallWatchdog


def test_who_was_not_alive_for_long_hears_first_what_it_has_lost() -> None:
    watchdog = StallWatchdog()
    assert not watchdog.beat(0.0)
    woke = STALL_S + 5
    assert watchdog.wait(woke) == QUIET_S
    assert watchdog.beat(woke)
    assert not watchdog.beat(woke + 0.5)
    assert watchdog.wait(woke + 0.5) == pytest.approx(QUIET_S - 0.5)
    assert not watchdog.beat(woke + QUIET_S)
    assert watchdog.wait(woke + QUIET_S) == 0


def test_who_beats_in_time_waits_for_nothing() -> None:
    watchdog = StallWatchdog()
    for second in range(10):
        assert not watchdog.beat(second)
        assert watchdog.wait(second + 0.9) == 0


def test_nothing_is_sent_after_a_hang_before_the_next_beats() -> None:
    watchdog = StallWatchdog()
    pace = Pace(DeliveryPolicy(rate=100), 0.0, watchdog=watchdog)
    pace.share(Share.owned(100, {0}, 2), 0.0)
    watchdog.beat(0.0)
    assert pace.wait(1.0) == 0
    assert pace.wait(STALL_S + 1) > 0
