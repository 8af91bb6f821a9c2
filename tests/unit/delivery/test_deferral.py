"""What follows an answer that asks to come later, on simulated time."""

from math import inf

import pytest

from app.domain.status import Output, RateMode
from tests.benchmarks.later_model import a_bucket, a_window_of, by_chance, closed, one_in, send
from workers.delivery.deferral import Deferral


def asked(*, seconds: float = 1.0, rate: float = 20.0) -> Deferral:
    """At second 0 the subscriber asked to come so much later, with a request that just left."""
    deferral = Deferral()
    deferral.defer(seconds, sent_at=0.0, now=0.0, rate=rate)
    return deferral


@pytest.mark.parametrize("latency_s", [0.002, 0.05, 0.2])
def test_a_subscriber_that_takes_one_a_second_gets_all_messages_within_their_ttl(
    latency_s: float,
) -> None:
    sent = send(one_in(1.0), messages=60, seconds=120, latency_s=latency_s)
    assert (len(sent.taken), sent.discarded) == (60, [])
    assert sent.taken_ratio(since=10) >= 0.9


@pytest.mark.parametrize(
    ("per_second", "burst"), [(1, 1), (1, 10), (3, 1), (10, 1), (10, 20), (100, 10), (250, 25)]
)
def test_most_of_what_a_subscriber_takes_is_sent_and_little_more(
    per_second: int, burst: int
) -> None:
    sent = send(a_bucket(per_second, burst=burst), messages=100_000, seconds=160)
    assert sent.taken_ratio(since=10) >= 0.9
    assert sent.taken_between(40, 160) >= 0.7 * 120 * per_second


@pytest.mark.parametrize(("share", "per_second"), [(0.01, 20), (0.03, 6), (0.1, 2), (0.5, 0.2)])
def test_a_subscriber_that_defers_by_chance_is_not_slowed_down_more_and_more(
    share: float, per_second: float
) -> None:
    sent = send(by_chance(share), messages=100_000, seconds=640, ttl_s=3600.0)
    assert sent.taken_between(40, 640) >= 600 * per_second


def test_a_subscriber_with_less_capacity_is_soon_spared() -> None:
    before, later = a_bucket(100, burst=10), a_bucket(1, burst=1)
    sent = send(lambda now: (before if now < 60 else later)(now), messages=100_000, seconds=180)
    refused = [at for at, taken in sent.requests if not taken and at >= 60]
    assert len(refused) <= 25
    assert sent.taken_ratio(since=90) >= 0.8


def test_a_quota_by_the_minute_is_used_up_and_costs_no_message() -> None:
    sent = send(a_window_of(100, 60.0), messages=1_000, seconds=300, ttl_s=70.0)
    assert len(sent.taken) >= 0.9 * 500
    assert sent.discarded == []
    assert sent.taken_ratio(since=10) >= 0.9


@pytest.mark.parametrize("after", [1.0, 5.0])
def test_while_it_asks_to_come_later_one_request_tries_at_a_time(after: float) -> None:
    sent = send(closed(10, 70, after=after), messages=100_000, seconds=100, ttl_s=100.0)
    requests = sum(10 <= at < 70 for at, _ in sent.requests)
    # A few were in flight when it was said first.
    assert requests <= 60 / after + 5
    assert sent.taken_between(90, 91) >= 0.9 * 400


def test_while_it_takes_nothing_few_messages_are_opened() -> None:
    sent = send(closed(0, 60, after=1.0), messages=100_000, seconds=59, ttl_s=3600.0)
    assert sent.opened <= 6


def test_nothing_leaves_before_the_time_that_was_asked_for() -> None:
    deferral = asked(seconds=5.0)
    assert deferral.wait(0.0) == 5.0
    assert deferral.is_quiet(4.9)
    assert deferral.wait(5.0) == 0.0


def test_then_one_request_tries_and_others_wait_until_it_is_taken() -> None:
    deferral = asked(seconds=5.0)
    deferral.sent(5.0)
    assert deferral.wait(5.1) > 0
    deferral.taken(sent_at=5.0, now=5.2, limit=400.0)
    assert not deferral.waits
    # A request in 0.1 s: half of 20 in a second.
    assert deferral.wait(5.2) == pytest.approx(0, abs=0.1)


def test_one_that_fails_lets_another_try() -> None:
    deferral = asked(seconds=5.0)
    deferral.sent(5.0)
    deferral.failed(sent_at=5.0)
    assert (deferral.wait(5.1), deferral.waits) == (0.0, True)


def test_what_left_before_it_was_asked_says_nothing() -> None:
    deferral = asked()
    deferral.taken(sent_at=-0.1, now=0.1, limit=400.0)
    assert deferral.waits
    assert not deferral.defer(3.0, sent_at=-0.1, now=0.2, rate=20.0)
    assert (deferral.refusals, deferral.rate) == (1, 10.0)
    assert deferral.wait(0.2) == 3.0


def test_a_new_message_may_try_after_the_fourth_refusal_and_when_they_have_doubled() -> None:
    deferral, another = asked(), []
    for number in range(2, 18):
        now = float(number)
        deferral.sent(now)
        assert deferral.defer(1.0, sent_at=now, now=now, rate=20.0)
        if deferral.tries_another:
            another.append(number)
    assert another == [4, 8, 16]


def test_without_learning_requests_leave_as_fast_as_before() -> None:
    deferral = Deferral(learns=False)
    deferral.defer(1.0, sent_at=0.0, now=0.0, rate=20.0)
    deferral.sent(1.0)
    deferral.taken(sent_at=1.0, now=1.1, limit=20.0)
    assert (deferral.rate, deferral.wait(1.1), deferral.active) == (inf, 0.0, False)


def test_people_see_why_it_is_slow() -> None:
    quiet = asked().seen(Output(rate=20.0, reason="rising"), 0.5)
    assert (quiet.rate, "Retry-After" in quiet.reason) == (0.0, True)
    assert asked().seen(Output(rate=20.0), 1.5).rate == 10.0
    down = Output(rate=0.1, mode=RateMode.HEARTBEAT, reason="failed")
    assert asked().seen(down, 0.5) is down


def test_what_waited_for_its_connection_is_not_written_in_a_pause_nor_beside_the_probe() -> None:
    deferral = Deferral()
    assert not deferral.forbids(sent_at=0.0, now=0.5)
    deferral.defer(2.0, sent_at=0.0, now=1.0, rate=20.0)
    assert deferral.forbids(sent_at=0.5, now=2.9)
    # The pause is over: one request tries, and nothing that was counted before.
    assert deferral.forbids(sent_at=0.5, now=3.1)
    deferral.sent(3.1)
    assert not deferral.forbids(sent_at=3.1, now=3.2)
    deferral.taken(sent_at=3.1, now=3.3, limit=20.0)
    assert not deferral.forbids(sent_at=0.5, now=3.4)


def test_what_was_not_sent_gives_back_its_turn() -> None:
    deferral = asked()
    deferral.sent(1.0)
    deferral.unsent(sent_at=1.0)
    assert deferral.wait(1.0) == 0
    deferral.sent(1.0)
    deferral.taken(sent_at=1.0, now=1.0, limit=20.0)
    deferral.sent(1.1)
    turn = deferral.wait(1.1)
    assert turn > 0
    deferral.sent(1.1 + turn)
    deferral.unsent(sent_at=1.1 + turn)
    assert deferral.wait(1.1) == pytest.approx(turn)
