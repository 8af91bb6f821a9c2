"""Measures how many messages were finished recently (pure).

The input consists of counts of all messages that were finished so far, at different times.
"""

from collections import deque
from datetime import timedelta
from typing import Final, NamedTuple

WINDOW: Final = timedelta(seconds=60)
# The minimum length of a measurement in seconds. A rate over a shorter time would depend on chance.
LEAST_S: Final = 5.0
# The length, in seconds, of the last part of a measurement. The rate in this part is regarded as
# the current rate, if the difference to the rate of the whole measurement is too large for chance.
RECENT_S: Final = 10.0
_FACTOR: Final = 1.5
_DEVIATIONS: Final = 3


class Sample(NamedTuple):
    """The counts of all messages that were finished until `at` (seconds since the epoch)."""

    at: float
    delivered: int
    discarded: int
    filtered: int

    @property
    def finished(self) -> int:
        """The number of finished messages: the sum of delivered, discarded and filtered ones."""
        return self.delivered + self.discarded + self.filtered


NOTHING: Final = Sample(0.0, 0, 0, 0)


class RecentGain:
    """The increase of the counts in the last minute, or since `restart` if that was later."""

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque()

    @property
    def since(self) -> float | None:
        """The start of the measurement; None if there is none."""
        return self._samples[0].at if self._samples else None

    @property
    def elapsed(self) -> float:
        """The length of the measurement in seconds."""
        return self._samples[-1].at - self._samples[0].at if self._samples else 0.0

    @property
    def is_known(self) -> bool:
        """Whether the measurement is long enough for a rate."""
        return self.elapsed >= LEAST_S

    @property
    def gained(self) -> Sample:
        """The increase of each count in the measured time. `at` is the length of this time."""
        return _gained(self._samples[0], self._samples[-1]) if self._samples else NOTHING

    @property
    def latest(self) -> Sample:
        """The increase of each count, from which the current rate is computed.

        This is usually `gained`. If the rate has changed lately, it is the increase in the last
        RECENT_S seconds only.
        """
        whole, samples = self.gained, self._samples
        if whole.at <= 2 * RECENT_S:
            return whole
        since = samples[-1].at - RECENT_S
        begun = next(each for each in reversed(samples) if each.at <= since)
        recent = _gained(begun, samples[-1])
        return recent if _is_another(recent, whole) else whole

    def observe(self, sample: Sample) -> None:
        """Add the current counts. Counts that are older than the last added ones are ignored."""
        samples = self._samples
        if samples and sample.at <= samples[-1].at:
            return
        samples.append(sample)
        oldest = sample.at - WINDOW.total_seconds()
        while len(samples) > 2 and samples[1].at <= oldest:  # noqa: PLR2004 - keep one sample from before the window
            samples.popleft()

    def restart(self, sample: Sample) -> None:
        """Start a new measurement: only messages that are finished after `sample` are counted."""
        if not self._samples or sample.at >= self._samples[-1].at:
            self._samples.clear()
            self._samples.append(sample)


def _gained(first: Sample, last: Sample) -> Sample:
    return Sample(
        last.at - first.at,
        last.delivered - first.delivered,
        last.discarded - first.discarded,
        last.filtered - first.filtered,
    )


def _is_another(recent: Sample, whole: Sample) -> bool:
    expected = whole.finished * recent.at / whole.at
    by_chance = _DEVIATIONS * max(1.0, expected) ** 0.5
    if abs(recent.finished - expected) <= by_chance:
        return False
    return not expected / _FACTOR <= recent.finished <= expected * _FACTOR
