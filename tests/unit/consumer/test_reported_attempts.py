"""What a worker reports of attempts, for their history."""

from app.domain.circuit import ErrorType
from app.domain.delivery import Retry
from app.domain.metrics.samples import ATTEMPTS
from app.services.pruning import REPORTS_KEPT
from workers.consumer.outcome.attempt_counts import RecentCounts
from workers.consumer.outcome.latency import Latency
from workers.consumer.outcome.reported_attempts import REPORT_KNOWN_FOR, ReportedAttempts

LONG = REPORT_KNOWN_FOR.total_seconds() + 1


class Attempts:
    """Attempts of one subscription, and what is reported of them."""

    def __init__(self) -> None:
        self._counts, self._latency = RecentCounts(0.0), Latency()
        self._reported = ReportedAttempts(self._counts, self._latency)

    def time_out(self) -> None:
        self._counts.add(Retry(reason="", error=ErrorType.TIMEOUT), size=1, retried=True)
        self._latency.add(2.0)

    def report(self, now: float) -> tuple[int, dict[str, int], int]:
        self._counts.roll(now)
        totals = self._reported.report(now, epoch_ms=int(now * 1000))
        counts = dict(zip(ATTEMPTS, totals.numbers, strict=False))
        known = {name: count for name, count in counts.items() if count}
        return totals.since_ms, known, sum(totals.numbers[len(ATTEMPTS) :])


def test_all_attempts_since_the_first_report_and_before_it_are_reported() -> None:
    attempts = Attempts()
    attempts.time_out()
    assert attempts.report(1.0) == (1000, {"retries": 1, "timeouts": 1}, 1)
    attempts.time_out()
    for now in (2.0, 3.0):
        assert attempts.report(now) == (1000, {"retries": 2, "timeouts": 2}, 2)


def test_after_a_long_pause_only_what_was_not_reported_before_is_reported() -> None:
    attempts = Attempts()
    attempts.time_out()
    attempts.report(1.0)
    attempts.time_out()
    assert attempts.report(LONG + 1) == (
        int((LONG + 1) * 1000),
        {"retries": 1, "timeouts": 1},
        1,
    )


def test_a_report_is_kept_longer_than_a_worker_counts_on() -> None:
    assert REPORT_KNOWN_FOR < REPORTS_KEPT
