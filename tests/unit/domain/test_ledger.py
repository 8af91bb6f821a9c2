"""What became of messages, by what was counted: exact sums, and what is doubtful about them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.domain.commit import Progress
from app.domain.insight.ledger import (
    REASONS_MAX,
    Book,
    Counted,
    Doubt,
    Finding,
    LedgerRequest,
    Mark,
    RecordAudience,
    RecordedDiscards,
    Sums,
    common,
    following,
    judged,
    left_of,
    mark_of,
    next_due,
    reasons_of,
    spans_of,
)
from app.domain.insight.ledger_chain import NOTHING, LedgerLink, entry_of, hash_of, written
from app.domain.insight.ledger_missing import RANGES_MAX, alarming, missing_among

NOON = datetime(2026, 1, 30, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def a_mark(offset: int, end: int, **counts: Any) -> Mark:  # noqa: ANN401 - fields of the value
    return Mark(partition=0, offset=offset, end=end, **counts)


def a_request(opening: Mark, closing: Mark, number: int = 1) -> LedgerRequest:
    return LedgerRequest(
        number=number, since=NOON, until=NOON + DAY, opening=(opening,), closing=(closing,)
    )


def a_count(messages: int, **settings: Any) -> Counted:  # noqa: ANN401 - fields of the value
    values = {
        "partition": 0,
        "carried": False,
        "passed": True,
        "audience": RecordAudience.EVERYBODY,
        "first": 0,
    }
    return Counted(messages=messages, **{**values, **settings})


def recorded(messages: int) -> tuple[RecordedDiscards, ...]:
    return (RecordedDiscards(partition=0, reason="r", status=400, messages=messages),)


def test_what_is_left_of_offsets_and_what_two_sets_have_in_common() -> None:
    assert left_of(3, 10, [(0, 2), (4, 5), (7, 12)]) == ((3, 4), (5, 7))
    assert left_of(3, 10, [(0, 4)]) == ((4, 10),)
    assert left_of(3, 3, []) == left_of(5, 3, []) == left_of(3, 10, [(3, 10)]) == ()
    assert left_of(0, 4, [(6, 9)]) == ((0, 4),)
    assert common([(0, 4), (6, 9)], [(2, 7), (8, 20)]) == ((2, 4), (6, 7), (8, 9))
    assert common([], [(0, 1)]) == common([(0, 1)], [(1, 2)]) == ()


def test_offsets_are_carried_published_or_unfinished() -> None:
    book = Book(
        opening=a_mark(2, 10, finished=((4, 6),)), closing=a_mark(8, 20, finished=((12, 15),))
    )
    assert book.carried() == ((2, 4), (6, 10))
    assert book.published() == ((10, 20),)
    assert book.unfinished() == ((8, 12), (15, 20))


def test_both_sides_are_the_same_when_nothing_is_missing() -> None:
    opening = a_mark(2, 10, delivered=1, discarded=1)
    closing = a_mark(8, 20, finished=((12, 15),), delivered=8, discarded=2, filtered=1)
    finding = Finding(
        counted=(
            a_count(6, carried=True, first=2),
            a_count(2, carried=True, passed=False),
            a_count(2),
            a_count(1, audience=RecordAudience.RESENT),
            a_count(5, audience=RecordAudience.OTHERS),
            a_count(7, passed=False),
        ),
        discards=recorded(1),
    )
    [found] = judged(a_request(opening, closing), finding)
    assert found.sums == Sums(
        carried=8,
        published=9,
        resent=1,
        delivered=7,
        discarded=1,
        filtered=1,
        unfinished=9,
        recorded=1,
    )
    assert found.doubts == frozenset()


def test_what_passed_and_was_not_counted_is_missing() -> None:
    closing = a_mark(10, 10, delivered=6, discarded=1)
    finding = Finding(counted=(a_count(6), a_count(4)), discards=recorded(1))
    [found] = judged(a_request(a_mark(0, 0), closing), finding)
    assert found.sums.missing == 3
    assert found.doubts == frozenset()


@pytest.mark.parametrize(
    ("opening", "closing", "counted", "doubt", "missing"),
    [
        ({}, {"delivered": 10, "seek": 1}, 10, Doubt.MOVED, 0),
        ({"seek": None}, {"delivered": 10}, 10, Doubt.MOVED, 0),
        ({"delivered": 11}, {"delivered": 1}, 10, Doubt.BEGUN_ANEW, 20),
        ({}, {"delivered": 12}, 10, Doubt.COUNTED_TWICE, -2),
        ({}, {"delivered": 8, "discarded": 2}, 10, Doubt.UNRECORDED, 0),
    ],
)
def test_what_is_doubtful_is_said(
    opening: dict[str, Any], closing: dict[str, Any], counted: int, doubt: Doubt, missing: int
) -> None:
    request = a_request(a_mark(0, 0, **opening), a_mark(10, 10, **closing))
    [found] = judged(request, Finding(counted=(a_count(counted),)))
    assert (set(found.doubts), found.sums.missing) == ({doubt}, missing)


def test_records_that_are_gone_are_taken_for_messages_of_everybody() -> None:
    request = a_request(a_mark(2, 5), a_mark(8, 12, delivered=5))
    [found] = judged(
        request, Finding(counted=(a_count(1, first=7), a_count(4, passed=False, first=8)))
    )
    # Carried 2, 3 and 4, published 5 and 6; one of the six that passed was never counted.
    assert found.sums == Sums(carried=3, published=7, delivered=5, unfinished=4, missing=1, gone=5)
    assert found.doubts == {Doubt.GONE}
    [nothing] = judged(request, Finding())
    assert (nothing.sums.gone, nothing.sums.unfinished) == (10, 4)


def test_a_cancelled_retransmission_may_hide_as_many_as_did_not_come() -> None:
    finding = Finding(counted=(a_count(5), a_count(4, audience=RecordAudience.CANCELLED)))
    [found] = judged(a_request(a_mark(0, 0), a_mark(9, 9, delivered=6)), finding)
    assert (found.sums.resent, found.sums.cancelled, found.sums.missing) == (4, 3, 0)
    assert found.doubts == {Doubt.CANCELLED}
    [all_came] = judged(a_request(a_mark(0, 0), a_mark(9, 9, delivered=9)), finding)
    assert all_came.doubts == frozenset()
    [more] = judged(a_request(a_mark(0, 0), a_mark(9, 9, delivered=4)), finding)
    assert (more.sums.cancelled, more.sums.missing) == (4, 1)


def test_a_partition_that_is_new_was_empty() -> None:
    closing = Mark(partition=1, offset=3, end=4, delivered=3)
    request = replace(a_request(a_mark(5, 5), a_mark(5, 5)), closing=(a_mark(5, 5), closing))
    counted = (a_count(3, partition=1), a_count(1, partition=1, passed=False))
    zero, one = judged(request, Finding(counted=counted))
    assert (zero.sums, zero.doubts) == (Sums(), frozenset())
    assert one.sums == Sums(published=4, delivered=3, unfinished=1)
    assert [(span.partition, span.start, span.end) for span in spans_of("t", request)] == [
        (0, 5, 5), (1, 0, 4),
    ]  # fmt: skip


def test_entries_that_follow_each_other_add_up() -> None:
    first = Sums(carried=1, published=9, delivered=7, unfinished=3)
    second = Sums(carried=3, published=2, delivered=4, missing=1)
    assert following([first, second]) == Sums(carried=1, published=11, delivered=11, missing=1)
    assert following([]) == Sums()


def test_an_entry_is_due_with_the_day_and_before_its_records_are_gone() -> None:
    midnight = datetime(2026, 1, 31, tzinfo=UTC)
    assert next_due(NOON, timedelta(days=7)) == midnight
    assert next_due(midnight, timedelta(days=7)) == midnight + DAY
    assert next_due(NOON, timedelta(hours=8)) == NOON + timedelta(hours=4)
    assert next_due(NOON, timedelta(seconds=1)) == NOON + timedelta(minutes=10)


def test_a_mark_is_what_the_commit_says() -> None:
    progress = Progress(
        subscription_id="s", offset=7, finished=((9, 11),), delivered=5, discarded=1, filtered=2,
        seek=3,
    )  # fmt: skip
    found = mark_of(2, progress, end=20)
    assert found == Mark(
        partition=2,
        offset=7,
        end=20,
        finished=((9, 11),),
        delivered=5,
        discarded=1,
        filtered=2,
        seek=3,
    )
    assert found.accounted == 8
    # Of a log that was made anew.
    assert mark_of(2, progress, end=0).end == 7


def test_reasons_are_added_up_over_partitions_and_the_most_frequent_come_first() -> None:
    discards = [
        RecordedDiscards(partition=index % 2, reason=reason, status=status, messages=messages)
        for index, (reason, status, messages) in enumerate(
            [("a", 400, 1), ("a", 400, 2), ("a", None, 1), ("b", 500, 2)]
        )
    ]
    assert reasons_of(discards) == [("a", 400, 3), ("b", 500, 2), ("a", None, 1)]
    many = [
        RecordedDiscards(partition=0, reason=f"{n}", status=None, messages=1) for n in range(99)
    ]
    assert len(reasons_of(many)) == REASONS_MAX


def test_what_is_missing_is_among_what_passed_in_its_partition() -> None:
    opening = a_mark(2, 6, finished=((4, 5),))
    closing = a_mark(9, 12, finished=((10, 11),), delivered=1)
    whole = replace(
        a_request(opening, closing),
        opening=(opening, replace(a_mark(0, 0), partition=1)),
        closing=(closing, Mark(partition=1, offset=3, end=3, delivered=3)),
    )
    finding = Finding(counted=(a_count(7), a_count(3, partition=1)))
    parts = judged(whole, finding)
    assert [each.sums.missing for each in parts] == [6, 0]
    assert missing_among(whole, parts) == [(0, 2, 4), (0, 5, 9), (0, 10, 11)]
    content = written("s-1", whole, finding)
    entry = entry_of(LedgerLink(1, content, NOTHING, hash_of(NOTHING, content)))
    assert entry.among == ((0, 2, 4), (0, 5, 9), (0, 10, 11))
    assert alarming(parts) == 6
    # Where it was moved, what it passed was not to be sent.
    [moved] = judged(a_request(opening, replace(closing, seek=1)), Finding(counted=(a_count(7),)))
    assert (moved.sums.missing, alarming([moved])) == (6, 0)
    [twice] = judged(a_request(opening, replace(closing, delivered=9)), finding)
    assert (twice.sums.missing, alarming([twice])) == (-2, 0)


def test_of_ranges_without_end_no_more_are_kept_than_are_shown_and_one() -> None:
    finished = tuple((number, number + 1) for number in range(2, 1_000, 2))
    request = a_request(a_mark(0, 0), a_mark(1, 1_000, finished=finished))
    parts = judged(request, Finding(counted=(a_count(500),)))
    assert len(missing_among(request, parts)) == RANGES_MAX + 1


def test_an_entry_is_read_as_it_was_written() -> None:
    request = a_request(a_mark(0, 0), a_mark(0, 2, finished=((1, 1),)), 2)
    content = written("s-1", request, Finding(discards=recorded(2)))
    link = LedgerLink(2, content, NOTHING, hash_of(NOTHING, content))
    entry = entry_of(link)
    assert (entry.number, entry.since, entry.until) == (2, NOON, NOON + DAY)
    assert (entry.hash, entry.previous) == (link.hash, link.previous)
    assert entry.closing == (a_mark(0, 2, finished=((1, 1),)),)
    assert entry.sums == Sums(published=2, unfinished=2, gone=2, recorded=2)
    assert entry.doubts == [Doubt.GONE]
    assert entry.reasons == (("r", 400, 2),)
