"""The totals of a subscription's attempts that a worker reports for the history of metrics."""

from datetime import timedelta
from typing import Final

from app.domain.metrics.attempts import AttemptTotals
from app.domain.metrics.samples import NO_ATTEMPTS
from workers.consumer.outcome.attempt_counts import RecentCounts
from workers.consumer.outcome.latency import Latency

# If the last report is older than this time, the database may have deleted it, because the database
# keeps a report for an hour (`app.services.pruning`). Then new totals begin at zero, and count what
# came after the last report.
REPORT_KNOWN_FOR: Final = timedelta(minutes=30)


class ReportedAttempts:
    """Reports totals of attempts.

    The totals count from the first report. After a long time without reports, they begin at zero
    again.
    """

    def __init__(self, counts: RecentCounts, latency: Latency) -> None:
        self._counts = counts
        self._latency = latency
        self._since_ms = 0
        self._base = self._last = NO_ATTEMPTS
        self._reported_at: float | None = None

    def report(self, now: float, *, epoch_ms: int) -> AttemptTotals:
        """Return the totals up to the end of the last complete slice of the counts.

        Args:
            now: The time of a clock that never goes back, in seconds.
            epoch_ms: The time in milliseconds since the epoch. If the totals begin at zero now,
                this and later reports have this time as the beginning of the totals.
        """
        last = self._reported_at
        if last is None or now - last > REPORT_KNOWN_FOR.total_seconds():
            self._since_ms, self._base = epoch_ms, self._last
        self._last = (*self._counts.ended(), *self._latency.within)
        self._reported_at = now
        numbers = zip(self._last, self._base, strict=True)
        return AttemptTotals(self._since_ms, tuple(so_far - base for so_far, base in numbers))
