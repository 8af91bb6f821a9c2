"""Samples of a history: what is added up, how it is packed, and which steps are asked for."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.errors import ValidationFailedError
from app.domain.metrics.attempts import AttemptTotals, gained
from app.domain.metrics.packing import packed, sealed, unpacked, unsealed
from app.domain.metrics.samples import (
    COUNTS,
    DURATIONS,
    NO_ATTEMPTS,
    MetricsSample,
    merged,
    percentile,
    together,
)
from app.domain.metrics.steps import KEPT, POINTS_MAX, Step, requested_span

NOW = datetime(2026, 3, 4, 12, 34, 56, tzinfo=UTC)
DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)


def numbers(count: int) -> st.SearchStrategy[tuple[int, ...]]:
    return st.tuples(*[st.integers(0, 2**40)] * count)


SAMPLES = st.builds(
    MetricsSample,
    numbers(len(COUNTS)),
    numbers(DURATIONS),
    st.integers(0, 2**50),
    st.none() | st.integers(0, 10**9).map(lambda hundredths: hundredths / 100),
)
INDEXED = st.dictionaries(st.integers(0, 59), SAMPLES, min_size=1).map(
    lambda found: sorted(found.items())
)


@given(INDEXED)
def test_what_was_packed_or_sealed_comes_out_again(
    samples: list[tuple[int, MetricsSample]],
) -> None:
    body = b"".join(packed(index, sample) for index, sample in samples)
    assert unpacked(body) == samples
    assert unsealed(sealed(samples)) == samples


def test_two_samples_of_one_index_count_together() -> None:
    sample = MetricsSample((1,) * len(COUNTS), (0,) * DURATIONS, 5)
    [(index, found)] = unpacked(packed(3, sample) + packed(3, sample._replace(lag=7)))
    assert index == 3
    assert found == MetricsSample((2,) * len(COUNTS), (0,) * DURATIONS, 7)


def test_a_longer_step_has_the_sums_the_largest_lag_and_the_mean_allowed_rate() -> None:
    one = MetricsSample((1,) * len(COUNTS), (2,) * DURATIONS, 9, 10.0)
    other = MetricsSample((3,) * len(COUNTS), (0,) * DURATIONS, 4, 30.0)
    unknown = MetricsSample((0,) * len(COUNTS), (0,) * DURATIONS, 0, None)
    found = merged([one, other, unknown])
    assert found == MetricsSample((4,) * len(COUNTS), (2,) * DURATIONS, 9, 20.0)
    assert together([one, other]) == MetricsSample((4,) * len(COUNTS), (2,) * DURATIONS, 13, None)


@pytest.mark.parametrize(
    ("durations", "share", "seconds"),
    [
        ((0,) * DURATIONS, 0.5, None),
        ((4, *[0] * 10), 0.5, 0.0025),
        ((4, *[0] * 10), 1.0, 0.005),
        ((0, 0, 10, *[0] * 8), 0.5, 0.0175),
        ((50, 0, 0, 0, 50, *[0] * 6), 0.99, 0.099),
        ((1, *[0] * 9, 9), 0.5, 10.0),
    ],
)
def test_a_percentile_is_estimated_within_its_bounds(
    durations: tuple[int, ...], share: float, seconds: float | None
) -> None:
    assert percentile(durations, share) == (None if seconds is None else pytest.approx(seconds))


def totals(since_ms: int, count: int) -> AttemptTotals:
    return AttemptTotals(since_ms, (count, *NO_ATTEMPTS[1:]))


def test_attempts_count_once_by_worker_and_start() -> None:
    first = gained(b"", {"a": totals(1, 5), "b": totals(2, 7)})
    assert first.numbers[0] == 12
    second = gained(first.known, {"a": totals(1, 6), "b": totals(3, 1)})
    assert second.numbers[0] == 1 + 1
    assert gained(second.known, {"a": totals(1, 6), "b": totals(3, 1)}).numbers == NO_ATTEMPTS


def test_a_report_that_is_older_than_the_recorded_one_counts_nothing() -> None:
    known = gained(b"", {"a": totals(1, 5)}).known
    assert gained(known, {"a": totals(1, 3)}).numbers == NO_ATTEMPTS


@pytest.mark.parametrize(
    ("ago", "step"),
    [
        (MINUTE, Step.MINUTE),
        (DAY, Step.MINUTE),
        (DAY + 2 * timedelta(hours=1), Step.HOUR),
        (KEPT[Step.MINUTE], Step.HOUR),
        (60 * DAY, Step.HOUR),
        (63 * DAY, Step.DAY),
        (400 * DAY, Step.DAY),
    ],
)
def test_the_shortest_step_that_is_not_too_many_is_taken(ago: timedelta, step: Step) -> None:
    assert requested_span(NOW - ago, None, None, now=NOW).step is step


def test_minutes_that_are_not_kept_any_more_are_not_taken_by_default() -> None:
    since = NOW - 10 * DAY
    assert requested_span(since, since + MINUTE, None, now=NOW).step is Step.HOUR


def test_a_span_has_whole_steps() -> None:
    span = requested_span(None, None, "hour", now=NOW)
    assert span.since == datetime(2026, 3, 3, 12, tzinfo=UTC)
    assert span.until == datetime(2026, 3, 4, 13, tzinfo=UTC)
    whole = datetime(2026, 3, 4, tzinfo=UTC)
    assert requested_span(whole - DAY, whole, "day", now=NOW).until == whole


def test_two_days_of_minutes_are_not_too_many() -> None:
    assert requested_span(NOW - KEPT[Step.MINUTE], None, "minute", now=NOW).step is Step.MINUTE


@pytest.mark.parametrize(
    ("since", "until", "step", "field"),
    [
        (NOW, NOW, None, "from"),
        (NOW + DAY, None, None, "from"),
        (NOW, NOW + DAY, None, "from"),
        (None, datetime.min.replace(tzinfo=UTC), None, "from"),
        (None, None, "week", "step"),
        (NOW - (POINTS_MAX + 1) * MINUTE, None, "minute", "step"),
        (datetime.min.replace(tzinfo=UTC), None, None, "step"),
    ],
)
def test_what_cannot_be_shown_is_refused_with_the_name_of_its_field(
    since: datetime | None, until: datetime | None, step: str | None, field: str
) -> None:
    with pytest.raises(ValidationFailedError) as refused:
        requested_span(since, until, step, now=NOW)
    assert [problem.path for problem in refused.value.details] == [field]


def test_a_time_after_now_ends_now() -> None:
    last = datetime.max.replace(tzinfo=UTC)
    assert requested_span(NOW - DAY, last, "day", now=NOW).until == datetime(2026, 3, 5, tzinfo=UTC)
