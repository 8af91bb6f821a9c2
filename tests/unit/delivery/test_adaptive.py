from collections.abc import Iterable
from datetime import timedelta

import pytest

from app.domain.circuit import ErrorType
from app.domain.delivery import Delivered, Discarded, Outcome, Retry
from app.domain.status import RateMode
from workers.delivery.adaptive import AdaptiveRate
from workers.delivery.health import QueueingDelay, is_healthy


class Timeline:
    """A subscription that is sent to as told, in seconds of its own."""

    def __init__(self, limit: float = 400, heartbeat_max: float = 60) -> None:
        self.now = 1_000.0
        self.rate = AdaptiveRate(limit=limit, heartbeat_max=heartbeat_max, now=self.now)

    def attempts(self, count: int, *, healthy: bool | None = True, retried: bool = False) -> None:
        """So many attempts, ending in this instant."""
        for _ in range(count):
            epoch = self.rate.sent(self.now)
            self.rate.learn(epoch, healthy=healthy, retried=retried, now=self.now)

    def second(self, ok: int, failed: int = 0) -> float:
        """A second with so many of each, the last of them at its end; returns the rate after it."""
        self.attempts(ok - 1 if ok else 0)
        self.attempts(failed if ok else failed - 1, healthy=False)
        self.now += 1.0
        self.attempts(1, healthy=bool(ok))
        return self.rate.rate

    def seconds(self, each: Iterable[tuple[int, int]]) -> list[float]:
        return [self.second(ok, failed) for ok, failed in each]

    def probe(self, *, healthy: bool | None, retried: bool = False) -> float:
        """The next probe, as soon as it may leave; returns how long it had to wait."""
        waited = self.rate.wait(self.now)
        self.now += waited
        self.attempts(1, healthy=healthy, retried=retried)
        return waited

    def go_down(self) -> None:
        self.seconds([(0, 20)] * 3)
        assert self.rate.mode is RateMode.HEARTBEAT


def test_starts_at_20_a_second_or_at_a_lower_limit() -> None:
    assert Timeline(limit=400).rate.rate == 20
    assert Timeline(limit=7).rate.rate == 7


def test_doubles_each_second_that_goes_well_up_to_its_limit() -> None:
    assert Timeline(limit=150).seconds([(20, 0)] * 4) == [40, 80, 150, 150]


def test_one_message_in_a_hundred_that_nobody_can_take_holds_up_no_other() -> None:
    timeline, number = Timeline(limit=2_000), 0
    for _ in range(8):
        sent = int(timeline.rate.rate)
        failed = (number + sent) // 100 - number // 100
        number += sent
        timeline.second(sent - failed, failed)
    assert timeline.rate.rate == 2_000


def test_where_it_once_failed_one_failure_is_not_taken_for_chance() -> None:
    timeline = Timeline(limit=400)
    timeline.second(14, 6)
    held = timeline.rate.rate
    timeline.second(29, 1)
    assert timeline.rate.rate == held


@pytest.mark.parametrize(
    ("ok", "failed", "after", "reason"),
    [
        (99, 1, 40, "rising"),
        (98, 2, 40, "rising"),
        (97, 3, 20, "holding: 3 of 100 attempts failed"),
        (19, 1, 40, "rising"),
        (18, 2, 16, "slowed down: 2 of 20 attempts failed"),
        (13, 1, 16, "slowed down: 1 of 14 attempts failed"),
        (95, 5, 20, "holding: 5 of 100 attempts failed"),
        (94, 6, 16, "slowed down: 6 of 100 attempts failed"),
        (40, 60, 16, "slowed down: 60 of 100 attempts failed"),
    ],
)
def test_what_failed_in_a_second_decides_on_the_next(
    ok: int, failed: int, after: float, reason: str
) -> None:
    timeline = Timeline()
    assert timeline.second(ok, failed) == pytest.approx(after)
    assert (timeline.rate.mode, timeline.rate.reason) == (RateMode.NORMAL, reason)


def test_where_it_once_failed_it_goes_on_in_small_steps() -> None:
    timeline = Timeline()
    timeline.seconds([(20, 0)] * 3)
    assert timeline.seconds([(90, 10), (99, 0), (99, 0)]) == pytest.approx([128, 136, 144])


def test_a_small_subscriber_gets_small_steps() -> None:
    timeline = Timeline(limit=10_000)
    timeline.second(80, 20)
    assert timeline.second(20) == pytest.approx(16 * 1.1)


def test_never_below_one_a_second() -> None:
    timeline = Timeline()
    assert timeline.seconds([(60, 40)] * 300)[-1] == 1


def test_with_few_attempts_it_waits_for_more_but_not_longer_than_ten_seconds() -> None:
    timeline = Timeline()
    assert timeline.seconds([(1, 0)] * 5) == [20, 20, 20, 20, 40]
    assert timeline.seconds([(1, 0)] + [(0, 0)] * 0) == [40]
    timeline.now += 9
    assert timeline.second(1) == 80


def test_what_was_before_a_long_pause_is_forgotten() -> None:
    timeline = Timeline()
    timeline.now += 0.5
    timeline.attempts(4, healthy=False)
    timeline.now += 3_600
    assert timeline.seconds([(10, 0), (10, 0)]) == [40, 80]
    assert timeline.rate.mode is RateMode.NORMAL


def at_its_limit() -> Timeline:
    timeline = Timeline(limit=400)
    assert timeline.seconds([(100, 0)] * 6)[-1] == 400
    return timeline


def test_what_fails_at_lower_rates_as_before_hardly_lowers_the_rate() -> None:
    timeline = at_its_limit()
    rates = timeline.seconds([(90, 10)] * 12)
    # It took 90 a second, of which four fifths are left to it.
    assert min(rates) == pytest.approx(0.8 * 90 * 0.99, rel=0.1)
    assert (
        timeline.rate.reason == "slowed down a little: 10 of 100 attempts failed, whatever the rate"
    )


def test_failures_that_end_at_the_same_rate_are_forgotten_at_once() -> None:
    timeline = at_its_limit()
    low = timeline.seconds([(90, 10)] * 30)[-1]
    assert timeline.seconds([(100, 0)] * 3) == pytest.approx([2 * low, 4 * low, 400])


def test_failures_that_end_at_a_lower_rate_were_caused_by_the_rate() -> None:
    timeline = at_its_limit()
    assert timeline.seconds([(320, 80), (310, 10), (300, 0)])[-1] < 400 * 0.8 + 2 * 8


def test_a_few_attempts_that_went_well_by_chance_do_not_end_a_trouble() -> None:
    timeline = Timeline(limit=10)
    low = timeline.seconds([(9, 1)] * 6)[-1]
    # One failure was due in ten attempts.
    step = 0.2
    rates = timeline.seconds([(10, 0)] * 3)
    assert rates[:2] == pytest.approx([low + step, low + 2 * step])
    assert rates[2] == 10


def test_what_fails_more_than_before_lowers_the_rate_further() -> None:
    timeline = at_its_limit()
    before = timeline.seconds([(360, 40)] * 8)[-1]
    assert timeline.second(70, 30) == pytest.approx(0.8 * before)


def test_a_rate_is_judged_by_what_was_sent_at_it() -> None:
    timeline = at_its_limit()
    early = [timeline.rate.sent(timeline.now) for _ in range(200)]
    lowered = timeline.second(90, 10)
    for epoch in early:
        timeline.now += 0.01
        timeline.rate.learn(epoch, healthy=False, retried=False, now=timeline.now)
    assert timeline.rate.rate == lowered
    assert timeline.rate.mode is RateMode.NORMAL


def test_few_attempts_that_mostly_fail_by_chance_are_no_outage() -> None:
    timeline = Timeline(limit=10)
    timeline.seconds([(7, 3)] * 6)
    timeline.seconds([(2, 3)] * 2)
    assert timeline.rate.mode is RateMode.NORMAL


def test_an_outage_is_seen_although_some_attempts_failed_before() -> None:
    timeline = Timeline(limit=10)
    timeline.seconds([(7, 3)] * 6)
    timeline.seconds([(0, 10)] * 2)
    assert timeline.rate.mode is RateMode.HEARTBEAT


def test_most_failing_for_two_seconds_means_down() -> None:
    timeline = Timeline()
    modes = []
    for _ in range(2):
        timeline.second(4, 5)
        modes.append(timeline.rate.mode)
    assert modes == [RateMode.NORMAL, RateMode.HEARTBEAT]
    assert timeline.rate.reason == "5 of 9 attempts failed"
    assert timeline.rate.since == timeline.now


def test_a_good_second_in_between_means_not_down() -> None:
    timeline = Timeline()
    timeline.seconds([(4, 5), (9, 0), (4, 5)])
    assert timeline.rate.mode is RateMode.NORMAL


def test_probes_leave_one_at_a_time() -> None:
    timeline = Timeline(heartbeat_max=60)
    timeline.go_down()
    timeline.now += timeline.rate.wait(timeline.now)
    epoch = timeline.rate.sent(timeline.now)
    timeline.now += 30
    assert timeline.rate.wait(timeline.now) > 0
    timeline.rate.learn(epoch, healthy=False, retried=False, now=timeline.now)
    assert timeline.rate.wait(timeline.now) == 0


def test_the_next_probe_is_known_while_it_is_down() -> None:
    timeline = Timeline()
    known = [timeline.rate.next_probe]
    timeline.go_down()
    known.append(timeline.rate.next_probe)
    probe_at = timeline.now + timeline.rate.wait(timeline.now)
    timeline.rate.sent(probe_at + 2)
    known.append(timeline.rate.next_probe)
    timeline.probe(healthy=True)
    known.append(timeline.rate.next_probe)
    assert known == [None, probe_at, probe_at + 2, None]


def test_the_gap_between_probes_grows_with_the_outage_up_to_its_limit() -> None:
    timeline = Timeline(heartbeat_max=12)
    timeline.go_down()
    gaps = [timeline.probe(healthy=False) for _ in range(40)]
    assert gaps[0] == 1
    assert sorted(gaps) == gaps
    assert gaps[-1] == 12
    assert timeline.rate.effective_rate == pytest.approx(1 / 12)


def test_an_arrival_and_two_clean_ones_end_an_outage_at_a_quarter_of_the_last_good_rate() -> None:
    timeline = Timeline()
    timeline.seconds([(20, 0)] * 6)
    timeline.go_down()
    timeline.probe(healthy=True)
    assert (timeline.rate.mode, timeline.rate.rate) == (RateMode.SLOW, 1)
    timeline.probe(healthy=True)
    assert timeline.rate.mode is RateMode.SLOW
    timeline.probe(healthy=True)
    assert (timeline.rate.mode, timeline.rate.rate) == (RateMode.NORMAL, 100)


def test_a_failure_while_recovering_goes_on_with_the_outage() -> None:
    timeline = Timeline()
    timeline.go_down()
    while timeline.probe(healthy=False) < 4:
        pass
    timeline.probe(healthy=True)
    timeline.probe(healthy=False)
    assert timeline.rate.mode is RateMode.HEARTBEAT
    assert timeline.rate.wait(timeline.now) >= 4


def test_who_fails_at_once_after_recovering_is_begun_with_less_each_time() -> None:
    timeline, rates = Timeline(), []
    timeline.seconds([(20, 0)] * 6)
    for _ in range(4):
        timeline.go_down()
        for _ in range(3):
            timeline.probe(healthy=True)
        rates.append(timeline.rate.rate)
    assert rates == [100, 25, 6.25, 1.5625]


def test_a_message_that_always_fails_slows_nobody_down() -> None:
    timeline = Timeline()
    for _ in range(4):
        timeline.now += 0.5
        timeline.attempts(10, healthy=False, retried=True)
        timeline.second(6)
        timeline.now -= 0.5
    assert timeline.rate.rate == 20 * 2**4


def test_retries_alone_tell_of_an_outage_too() -> None:
    timeline = Timeline()
    for _ in range(30):
        timeline.now += 0.1
        timeline.attempts(1, healthy=False, retried=True)
    assert timeline.rate.mode is RateMode.HEARTBEAT


def test_a_message_that_always_fails_does_not_undo_a_recovery() -> None:
    timeline = Timeline()
    timeline.go_down()
    timeline.probe(healthy=True)
    timeline.probe(healthy=False, retried=True)
    assert timeline.rate.mode is RateMode.SLOW


def test_a_probe_that_sent_nothing_makes_room_for_the_next_at_once() -> None:
    timeline = Timeline()
    timeline.go_down()
    timeline.probe(healthy=None)
    assert timeline.rate.wait(timeline.now) == 0


def test_what_lands_late_from_before_an_outage_says_nothing_of_now() -> None:
    timeline = Timeline()
    early = timeline.rate.sent(timeline.now)
    timeline.go_down()
    timeline.rate.learn(early, healthy=True, retried=False, now=timeline.now)
    assert timeline.rate.mode is RateMode.HEARTBEAT


def test_holds_while_answers_slow_down_with_all_requests_in_the_air() -> None:
    timeline = Timeline()
    timeline.rate.took(0.01, full=False)
    timeline.second(20)
    for full, after in ((True, 40), (False, 80)):
        timeline.rate.took(0.03, full=full)
        assert timeline.second(20) == after


def test_what_was_quick_a_minute_ago_is_no_measure() -> None:
    latency = QueueingDelay()
    latency.add(0.01, full=True)
    assert not latency.roll(0.0)
    latency.add(0.05, full=True)
    assert latency.roll(59.0)
    latency.add(0.05, full=True)
    assert not latency.roll(61.0)


@pytest.mark.parametrize(
    ("outcome", "healthy"),
    [
        (Delivered(status=200), True),
        (Retry(reason="", status=429, retry_after=timedelta(seconds=1)), None),
        (Retry(reason="", status=503, retry_after=timedelta()), None),
        (Discarded(reason="", status=404), True),
        (Retry(reason="", status=429), False),
        (Retry(reason="", status=503), False),
        (Retry(reason="", error=ErrorType.TIMEOUT), False),
        (Retry(reason="connection refused"), False),
        (Discarded(reason="address refused"), None),
    ],
)
def test_what_an_outcome_says_of_the_subscriber(outcome: Outcome, *, healthy: bool | None) -> None:
    assert is_healthy(outcome) is healthy
