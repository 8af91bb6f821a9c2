"""Whether attempts fail because too many are sent, or for another reason (pure).

A subscriber that is sent too much still takes what it can, and at a lower rate nothing fails. What
fails at a lower rate as before fails for another reason: a still lower rate delivers less, and no
attempt more succeeds.
"""

from math import sqrt
from typing import Final, NamedTuple

DECREASE: Final = 0.8
# This share of what the subscriber took is left to it.
KEPT: Final = 0.8
# Below that the rate falls slowly, because what the subscriber takes may change.
DECREASE_SLOWLY: Final = 0.99
# A trouble is over when so many failures were due, and none came.
DUE_MIN: Final = 2.5
# So many standard deviations more failures than were due are not chance.
DEVIATIONS_MAX: Final = 3.0


class JudgedAttempts(NamedTuple):
    """Attempts at one `rate` (requests per second) that ended from `start` to `end` (seconds)."""

    rate: float
    failures: int
    total: int
    start: float
    end: float

    @property
    def mostly_failed(self) -> bool:
        """Whether more than half failed."""
        return 2 * self.failures > self.total

    @property
    def taken(self) -> float:
        """What the subscriber took, in requests per second."""
        successes = self.total - self.failures
        return min(self.rate * successes / self.total, successes / (self.end - self.start))

    @property
    def failed(self) -> str:
        """How many attempts failed, for users to read."""
        return f"{self.failures} of {self.total} attempts failed"

    def after(self, earlier: "JudgedAttempts | None") -> "JudgedAttempts":
        """This and the `earlier` attempts together."""
        if earlier is None:
            return self
        failures, total = earlier.failures + self.failures, earlier.total + self.total
        return JudgedAttempts(self.rate, failures, total, earlier.start, self.end)


class Trouble:
    """Attempts that fail, from the first window in which too many do until the failures end."""

    __slots__ = ("_due", "_failed_at", "_failures", "_kept", "_total", "safe_rate", "slowly")

    def __init__(self, first: JudgedAttempts, *, safe_rate: float) -> None:
        # Up to this rate large steps were safe before the trouble.
        self.safe_rate = safe_rate
        # Whether the rate falls slowly: the failures do not depend on it.
        self.slowly = False
        self._failures = self._total = 0
        # So many failures were due since the last one came.
        self._due = 0.0
        # Down to this rate the rate falls quickly.
        self._kept = KEPT * first.taken
        # Too many failed at this rate last.
        self._failed_at = first.rate

    @property
    def is_over(self) -> bool:
        """Whether the failures have ended, not only by chance."""
        return self._due >= DUE_MIN

    def lowered(self, window: JudgedAttempts) -> float:
        """The next rate, after a window in which too many failed."""
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
        """Whether this window, which went well, shows that the rate is not the cause.

        Tell of each window that went well.
        """
        self._due += self._due_of(window)
        return self.is_over and window.rate >= self._failed_at

    def explains(self, window: JudgedAttempts) -> bool:
        """Whether as many as in this window fail by chance."""
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
