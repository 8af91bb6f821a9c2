"""A trace as it is shown: each entry once, and each attempt with its beginning."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from app.domain.trace import END_UNKNOWN, TraceEntry, TraceSource, TraceStatus, timeline

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MS = timedelta(milliseconds=1)


def an_entry(
    status: TraceStatus, ms: float, *, took: float | None = None, attempt: int = 1
) -> TraceEntry:
    return TraceEntry(
        source=TraceSource(topic="a.b", subscription_id="s", subscription="s"),
        message_id="m",
        at=NOON + ms * MS,
        status=status,
        attempt=attempt,
        took=None if took is None else took * MS,
        worker="w",
        status_code=None if took is None else 200,
    )


def shown(*entries: TraceEntry) -> list[tuple[str, float]]:
    return [(each.status.value, (each.at - NOON) / MS) for each in timeline(entries)]


def test_an_attempt_that_is_over_has_begun() -> None:
    end = an_entry(TraceStatus.FAILED, 30, took=20)
    assert shown(end) == [("INFLIGHT", 10), ("FAILED", 30)]
    beginning = timeline([end])[0]
    assert (beginning.status_code, beginning.took, beginning.attempt) == (None, None, 1)


def test_a_beginning_that_was_recorded_is_shown_once() -> None:
    entries = [an_entry(TraceStatus.INFLIGHT, 10.1), an_entry(TraceStatus.SUCCESS, 500, took=490)]
    assert shown(*entries) == [("INFLIGHT", 10), ("SUCCESS", 500)]


def test_an_attempt_whose_end_nobody_saw_stays_in_the_air() -> None:
    died = an_entry(TraceStatus.INFLIGHT, 10)
    again = replace(an_entry(TraceStatus.SUCCESS, 5_000, took=20), worker="other")
    assert shown(died, again) == [("INFLIGHT", 10), ("INFLIGHT", 4_980), ("SUCCESS", 5_000)]
    later = an_entry(TraceStatus.SUCCESS, 5_000, took=20)
    assert shown(died, later) == [("INFLIGHT", 10), ("INFLIGHT", 4_980), ("SUCCESS", 5_000)]


def test_an_attempt_that_another_worker_repeats_says_that_nobody_knows_its_end() -> None:
    died = an_entry(TraceStatus.INFLIGHT, 10)
    again = replace(an_entry(TraceStatus.SUCCESS, 5_000, took=20), worker="other")
    elsewhere = replace(again, offset=7)
    assert [each.reason for each in timeline([died, again])] == [END_UNKNOWN, "", ""]
    assert [each.reason for each in timeline([died])] == [""]
    assert [each.reason for each in timeline([died, elsewhere])] == ["", "", ""]


def test_what_is_recorded_twice_is_shown_once() -> None:
    end = an_entry(TraceStatus.SUCCESS, 5, took=1)
    assert shown(end, replace(end)) == [("INFLIGHT", 4), ("SUCCESS", 5)]


def test_a_discard_comes_after_the_attempt_of_its_moment() -> None:
    entries = [an_entry(TraceStatus.DISCARDED, 5), an_entry(TraceStatus.FAILED, 5, took=0)]
    assert [status for status, _ in shown(*entries)] == ["INFLIGHT", "FAILED", "DISCARDED"]
