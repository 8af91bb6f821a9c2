"""Finds out whether attempts fail because the rate is too high, or for another reason (pure).

A subscriber that gets too many requests still accepts as many as it can, and at a lower rate
nothing fails. If as many attempts fail at a lower rate, there is another reason. An even lower rate
would only deliver less.
"""

from math import sqrt
from typing import Final, NamedTuple

DECREASE: Final = 0.8
# While failures continue, the rate falls quickly to this part (0 to 1) of the rate that the
# subscriber accepted.
KEPT: Final = 0.8
# After the quick fall, the rate falls slowly, by this factor each time. It does not stay constant,
# because the subscriber's capacity may become smaller.
DECREASE_SLOWLY: Final = 0.99
# The trouble is over if no attempt failed while at least this many failures were expected.
DUE_MIN: Final = 2.5
# If the failures exceed the expected number by more than this many standard deviations, they are
# more than chance.
DEVIATIONS_MAX: Final = 3.0


class JudgedAttempts(NamedTuple):
    """The attempts at one rate in one period of time.

    Attributes:
        rate: The allowed requests per second.
        failures: The number of attempts that failed.
        total: The number of attempts that ended.
        start: The start of the period, in monotonic seconds.
        end: The end of the period.
    """

    rate: float
    failures: int
    total: int
    start: float
    end: float

    @property
    def mostly_failed(self) -> bool:
        """Whether more than half of the attempts failed."""
        return 2 * self.failures > self.total

    @property
    def taken(self) -> float:
        """The requests per second that the subscriber accepted."""
        successes = self.total - self.failures
        return min(self.rate * successes / self.total, successes / (self.end - self.start))

    @property
    def failed(self) -> str:
        """Return the number of failed attempts as text for users."""
        return f"{self.failures} of {self.total} attempts failed"

    def after(self, earlier: "JudgedAttempts | None") -> "JudgedAttempts":
        """Return the `earlier` attempts and the attempts of this object together."""
        if earlier is None:
            return self
        failures, total = earlier.failures + self.failures, earlier.total + self.total
        return JudgedAttempts(self.rate, failures, total, earlier.start, self.end)


class Trouble:
    """A period of failures, from the first window with too many failures until the failures end."""

    __slots__ = ("_due", "_failed_at", "_failures", "_kept", "_total", "safe_rate", "slowly")

    def __init__(self, first: JudgedAttempts, *, safe_rate: float) -> None:
        # The rate below which the rate could be raised in large steps before the trouble.
        self.safe_rate = safe_rate
        # Whether the rate falls slowly, because the number of failures does not depend on the rate.
        self.slowly = False
        self._failures = self._total = 0
        # The number of failures that were expected since the last failure.
        self._due = 0.0
        # The rate falls quickly until it reaches this value, and then slowly.
        self._kept = KEPT * first.taken
        # The last rate with too many failures.
        self._failed_at = first.rate

    @property
    def is_over(self) -> bool:
        """Whether the failures have ended, and not only by chance."""
        return self._due >= DUE_MIN

    def lowered(self, window: JudgedAttempts) -> float:
        """Return the next rate after a window with too many failures."""
        if not window.mostly_failed:
            self._count(window)
        self._due = 0.0
        self.slowly = window.rate <= self._kept
        if self.slowly:
            self._failed_at = DECREASE_SLOWLY * window.rate
            return self._failed_at
        self._failed_at = window.rate
        return max(self._kept, DECREASE * window.rate)

    def is_disproved(self, window: JudgedAttempts) -> bool:
        """Whether this window shows that the rate is not the cause of the failures.

        Call this for each window that did not have too many failures.
        """
        self._due += self._due_of(window)
        return self.is_over and window.rate >= self._failed_at

    def explains(self, window: JudgedAttempts) -> bool:
        """Whether this window has no more failures than the earlier windows let us expect."""
        due = self._due_of(window)
        return self._total > 0 and window.failures <= due + DEVIATIONS_MAX * sqrt(due)

    def _count(self, window: JudgedAttempts) -> None:
        if self._total and not self.explains(window):
            self._kept = KEPT * window.taken
            self._failures = self._total = 0
        self._failures += window.failures
        self._total += window.total

    def _due_of(self, window: JudgedAttempts) -> float:
        return window.total * (self._failures / self._total if self._total else 1.0)
