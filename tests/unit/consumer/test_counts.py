"""The counts of the last minute."""

from dataclasses import asdict
from datetime import timedelta

import pytest

from app.domain.circuit import ErrorType
from app.domain.delivery import Delivered, Discarded, Outcome, Retry
from workers.consumer.outcome.attempt_counts import WINDOW, RecentCounts


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [
        (Delivered(status=204), "codes_2xx"),
        (Discarded(reason="no", status=400), "codes_4xx"),
        (Retry(reason="no", status=429), "codes_4xx"),
        (Retry(reason="no", status=503), "codes_5xx"),
        (Retry(reason="no", status=302), "codes_other"),
        (Retry(reason="late", error=ErrorType.TIMEOUT), "timeouts"),
        (Retry(reason="refused"), "other_errors"),
        (Discarded(reason="malformed"), "other_errors"),
    ],
)
def test_counts_an_attempt_by_what_came_of_it(outcome: Outcome, kind: str) -> None:
    counts = RecentCounts(0.0)
    counts.add(outcome, size=7, retried=False)
    assert counts.roll(1.0)
    counted = {name: value for name, value in asdict(counts.totals()).items() if value}
    assert counted == ({kind: 1, "bytes": 7} if kind == "codes_2xx" else {kind: 1})


def test_counts_retries_besides() -> None:
    counts = RecentCounts(0.0)
    counts.add(Retry(reason="no", status=500), size=7, retried=True)
    counts.roll(1.0)
    assert (counts.totals().codes_5xx, counts.totals().retries) == (1, 1)


def test_forgets_what_is_older_than_the_window() -> None:
    counts, window = RecentCounts(0.0), WINDOW.total_seconds()
    for now in (1.0, 2.0):
        counts.add(Delivered(status=200), size=5, retried=False)
        counts.roll(now)
    assert counts.roll(1.0 + window)
    assert (counts.totals().codes_2xx, counts.totals().bytes) == (1, 5)
    assert not counts.roll(2.0 + window)
    assert not any(asdict(counts.totals()).values())


@pytest.mark.parametrize(("now", "seconds"), [(100.2, 1), (110.0, 10), (1_000.0, 60)])
def test_says_for_how_long_it_has_counted(now: float, seconds: int) -> None:
    assert RecentCounts(100.0).window(now) == timedelta(seconds=seconds)
