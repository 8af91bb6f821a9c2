"""What an attempt shows of the subscriber's health and response time (pure)."""

from collections import deque
from statistics import median
from typing import Final

from app.domain.delivery import Delivered, Discarded, Outcome, Retry

SAMPLES_MAX: Final = 1_000
# The period in seconds over which the fastest responses are remembered.
MEMORY_S: Final = 60.0
SLOWER_BY: Final = 2.0


def is_healthy(outcome: Outcome, *, ill: bool = False) -> bool | None:
    """Return whether an outcome shows a subscriber that can accept its messages.

    A subscriber that answers that a message is wrong is healthy. A subscriber that times out,
    fails, breaks connections or answers 429 without a Retry-After is not. A response with
    Retry-After does not show which rate is right; `workers.delivery.deferral` finds that out. But
    the response shows that a subscriber that was down (`ill`) works again. If a retry goes to only
    some of the subscriber's addresses, and all of these fail, the health is unknown, unless the
    subscriber was down.

    Returns:
        None if the outcome does not show the health.
    """
    match outcome:
        case Delivered():
            return True
        case Retry():
            if outcome.others_well:
                return True
            if outcome.blameless or (outcome.others_well is False and not ill):
                return None
            if outcome.retry_after is None:
                return False
            return True if ill else None
        case Discarded():
            return True if outcome.status is not None else None


class Attempts:
    """Counts of the attempts in a window, by what they show.

    If one message fails repeatedly, the problem is probably the message and not the subscriber. So
    failed retries count only while no other message succeeds at its first attempt.
    """

    __slots__ = ("first_failed", "first_ok", "retry_failed", "retry_ok")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Set all counts to zero, and begin a new window."""
        self.first_ok = self.first_failed = self.retry_ok = self.retry_failed = 0

    def add(self, *, healthy: bool, retried: bool) -> None:
        """Count one attempt."""
        if retried:
            self.retry_ok += healthy
            self.retry_failed += not healthy
        else:
            self.first_ok += healthy
            self.first_failed += not healthy

    @property
    def successes(self) -> int:
        """Return the number of attempts that show a healthy subscriber."""
        return self.first_ok + self.retry_ok

    @property
    def failures(self) -> int:
        """Return the number of attempts that show an ill subscriber."""
        return self.first_failed + (0 if self.first_ok else self.retry_failed)

    @property
    def total(self) -> int:
        """Return the number of attempts that show a healthy or an ill subscriber."""
        return self.successes + self.failures


class QueueingDelay:
    """Detects that responses become slow, because requests wait in a queue at the subscriber."""

    __slots__ = ("_count", "_full", "_medians", "_samples")

    def __init__(self) -> None:
        self._samples: list[float] = []
        self._count = 0
        self._full = False
        self._medians: deque[tuple[float, float]] = deque()

    def add(self, seconds: float, *, full: bool) -> None:
        """Add the duration of an attempt.

        `full` means that the in-flight limit was reached.
        """
        if self._count < SAMPLES_MAX:
            self._samples.append(seconds)
        else:
            self._samples[self._count % SAMPLES_MAX] = seconds
        self._count += 1
        self._full = self._full or full

    def roll(self, now: float) -> bool:
        """End a window, and return whether its responses were slow.

        The responses were slow if their median time is more than twice the best median of the last
        minute. The result is always False if the in-flight limit was not reached in the window,
        because a subscriber may be slow even with few requests.
        """
        medians, full = self._medians, self._full
        while medians and medians[0][0] <= now - MEMORY_S:
            medians.popleft()
        if not self._samples:
            return False
        current = median(self._samples)
        medians.append((now, current))
        self._samples, self._count, self._full = [], 0, False
        return full and current > SLOWER_BY * min(each for _, each in medians)
