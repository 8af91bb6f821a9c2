"""What is decided of retransmissions."""

from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from math import inf, nan

import pytest

from app.domain.catalogue.subscription import RATE_MAX
from app.domain.commit import Progress
from app.domain.errors import ValidationFailedError
from app.domain.job import JobState
from app.domain.message import Message, Partition, Record
from app.domain.replay.retransmission import (
    CANCELLED_KEPT,
    Only,
    Request,
    RetransmissionState,
    Selection,
    Sent,
    ahead_max,
    dropping,
    found_sent,
    sent_again,
    state_of,
    unfinished,
)
from app.domain.replay.sending_rate import RetransmissionPace
from app.domain.targeted import RecordTarget

OURS = RecordTarget("a" * 32, "b" * 32)
THEIRS = RecordTarget("a" * 32, "c" * 32)
ORDERS = Partition("shop.orders", 3)
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
LAST = datetime(2026, 1, 2, tzinfo=UTC)


def a_record(*headers: tuple[bytes, bytes], offset: int = 7) -> Record:
    return Record(offset, 1_000, b"key", b"body", list(headers))


def test_a_message_comes_again_as_it_was_but_for_one_subscription_and_now() -> None:
    record = a_record((b"id", b"m-1"), (b"ts", b"1000"), (b"w", b"x"), (b"h-a", b"1"))
    new = sent_again(record, ORDERS, OURS, now_ms=5_000)
    message = Message(Record(9, 5_000, new.key, new.value, list(new.headers)), ORDERS)
    assert (message.id, message.body, message.key) == (b"m-1", b"body", b"key")
    assert (message.record_target, message.receipt) == (OURS, None)
    assert message.propagated == [(b"a", b"1")]
    assert dict(new.headers)[b"ts"] == b"5000"


def test_a_foreign_message_keeps_the_id_of_the_place_that_it_had() -> None:
    new = sent_again(a_record(), ORDERS, OURS, now_ms=5_000)
    assert dict(new.headers)[b"id"] == b"shop.orders/3/7"


def test_a_message_of_a_retransmission_says_where_it_was() -> None:
    new = sent_again(a_record(offset=7), ORDERS, OURS, now_ms=5_000)
    record = Record(40, 5_000, None, b"", list(new.headers))
    assert found_sent(record, 1, OURS) == Sent(3, 7, 1, 40)
    assert found_sent(record, 1, THEIRS) is None
    assert found_sent(a_record((b"r", OURS.header())), 1, OURS) is None
    assert found_sent(a_record((b"r", OURS.header()), (b"rs", b"x/1")), 1, OURS) is None


@pytest.mark.parametrize(
    ("offsets", "finished", "left"),
    [
        ((), (), []),
        ((1, 2, 9), (), []),
        ((9, 10, 11, 20), (), [10, 11, 20]),
        ((10, 11, 12, 13, 14, 15), ((11, 13), (14, 15)), [10, 13, 15]),
        ((12, 30), ((11, 13), (29, 31)), []),
    ],
)
def test_finished_is_what_is_before_the_position_and_in_its_ranges(
    offsets: tuple[int, ...], finished: tuple[tuple[int, int], ...], left: list[int]
) -> None:
    progress = Progress(subscription_id="s", offset=10, finished=finished)
    assert unfinished(offsets, progress) == left


def test_without_a_commit_nothing_is_finished() -> None:
    assert unfinished((1, 2), None) == [1, 2]


@pytest.mark.parametrize(("share", "rate_max"), [(0.5, None), (0.5, 300), (1.0, 200)])
def test_in_no_second_more_is_appended_than_the_share_the_rate_and_one_burst(
    share: float, rate_max: float | None
) -> None:
    pace, sent, now = RetransmissionPace(share, 0.0, rate_max=rate_max), [], 0.0
    while now < 10:
        now += 0.1
        count = pace.allowed(rate=400, ahead=0, now=now)
        pace.appended(count)
        sent.append(count)
    assert sum(sent) == pytest.approx(2_000, abs=50)
    assert max(sum(sent[at : at + 10]) for at in range(90)) <= 250


def test_a_rate_below_one_message_per_second_is_held() -> None:
    pace, sent = RetransmissionPace(1.0, 0.0, rate_max=0.25), []
    for tenths in range(1, 401):
        now = tenths / 10
        if pace.allowed(rate=400, ahead=0, now=now):
            pace.appended(1)
            sent.append(now)
    assert len(sent) in {9, 10}
    # A time may be a tenth late, and the next one makes up for it.
    assert all(after - before > 3.8 for before, after in pairwise([0.0, *sent]))


@pytest.mark.parametrize(("share", "rate_max"), [(0.5, None), (1.0, 200)])
def test_what_is_not_finished_holds_the_rest_back(share: float, rate_max: float | None) -> None:
    pace = RetransmissionPace(share, 0.0, rate_max=rate_max)
    most = ahead_max(200)
    assert pace.allowed(rate=400, ahead=most, now=10.0) == 0
    assert pace.allowed(rate=400, ahead=most - 3, now=10.0) == 3


def test_a_rest_is_not_made_up_for() -> None:
    pace = RetransmissionPace(1.0, 0.0)
    pace.rest(100.0)
    assert pace.allowed(rate=100, ahead=0, now=100.0) == 0


@pytest.mark.parametrize(
    ("stored", "job", "seen"),
    [
        ("REQUESTED", "REQUESTED", "REQUESTED"),
        ("REQUESTED", "RUNNING", "READING"),
        ("REQUESTED", "FAILED", "FAILED"),
        ("REQUESTED", "CANCELLED", "CANCELLED"),
        ("SENDING", "DONE", "SENDING"),
        ("CANCELLED", "RUNNING", "CANCELLED"),
        ("DONE", "DONE", "DONE"),
    ],
)
def test_until_messages_are_chosen_it_stands_where_its_job_does(
    stored: str, job: str, seen: str
) -> None:
    assert state_of(RetransmissionState(stored), JobState(job)) == seen


def test_the_last_that_were_cancelled_are_remembered_each_once() -> None:
    dropped: tuple[str, ...] = ()
    for number in range(CANCELLED_KEPT + 5):
        dropped = dropping(dropped, str(number))
    assert dropped == tuple(str(number) for number in range(5, CANCELLED_KEPT + 5))
    assert dropping(dropped, "9")[-1] == "9"
    assert len(set(dropping(dropped, "9"))) == CANCELLED_KEPT


def test_what_cannot_be_asked_for_is_named() -> None:
    with pytest.raises(ValidationFailedError, match="statusCodes"):
        Selection(only=Only.ALL, statuses=(400,))
    with pytest.raises(ValidationFailedError, match="messageIds"):
        Selection(message_ids=("m",) * 1_001)


@pytest.mark.parametrize("rate", [0, -1, 0.009, nan, inf, RATE_MAX + 1])
def test_a_rate_that_cannot_be_held_is_refused(rate: float) -> None:
    with pytest.raises(ValidationFailedError, match="rate"):
        Request(since=FIRST, until=LAST, spans=(), rate=rate)
    request = Request(since=FIRST, until=LAST, spans=())
    with pytest.raises(ValidationFailedError, match="share"):
        replace(request, share=0.0)
    with pytest.raises(ValidationFailedError, match="share"):
        replace(request, share=1.01)
    with pytest.raises(ValidationFailedError, match="from"):
        replace(request, since=LAST)
