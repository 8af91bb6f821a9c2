"""What an attempt shows of the subscriber's health, and how quickly it answers (pure)."""

from collections import deque
from statistics import median
from typing import Final

from app.domain.delivery import Delivered, Discarded, Outcome, Retry

SAMPLES_MAX: Final = 1_000
# What "quick" means for a subscriber is remembered this long.
MEMORY_S: Final = 60.0
SLOWER_BY: Final = 2.0


def is_healthy(outcome: Outcome, *, ill: bool = False) -> bool | None:
    """Whether the subscriber can take what it gets; None when that is not known.

    A subscriber that answers that a message is wrong is healthy. One that times out, fails, breaks
    connections or only answers "too many" is not. One that answers when to come back does not show
    how fast it may be sent to (`workers.delivery.deferral` learns from it), unless it is known to
    be `ill`: then it is not any more. One of several addresses that fails shows nothing of the
    others, unless the subscriber is `ill`.
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
    """Attempts in a window by what they show.

    A message that fails again and again shows more of itself than of the subscriber: its
    retries count as failures only while no other message arrives at its first attempt.
    """

    __slots__ = ("first_failed", "first_ok", "retry_failed", "retry_ok")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Begin another window."""
        self.first_ok = self.first_failed = self.retry_ok = self.retry_failed = 0

    def add(self, *, healthy: bool, retried: bool) -> None:
        """Count one."""
        if retried:
            self.retry_ok += healthy
            self.retry_failed += not healthy
        else:
            self.first_ok += healthy
            self.first_failed += not healthy

    @property
    def successes(self) -> int:
        """Attempts that found the subscriber healthy."""
        return self.first_ok + self.retry_ok

    @property
    def failures(self) -> int:
        """Attempts that found it ill."""
        return self.first_failed + (0 if self.first_ok else self.retry_failed)

    @property
    def total(self) -> int:
        """Attempts that show something."""
        return self.successes + self.failures


class QueueingDelay:
    """Whether answers take longer because requests queue up at the subscriber."""

    __slots__ = ("_count", "_full", "_medians", "_samples")

    def __init__(self) -> None:
        self._samples: list[float] = []
        self._count = 0
        self._full = False
        self._medians: deque[tuple[float, float]] = deque()

    def add(self, seconds: float, *, full: bool) -> None:
        """An attempt took `seconds`; `full`: as many as allowed were in flight."""
        if self._count < SAMPLES_MAX:
            self._samples.append(seconds)
        else:
            self._samples[self._count % SAMPLES_MAX] = seconds
        self._count += 1
        self._full = self._full or full

    def roll(self, now: float) -> bool:
        """End a window; whether its median was over twice the quickest of the last minute.

        Only with the pool full: a subscriber may well be slow with a few.
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
