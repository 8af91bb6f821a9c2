"""How much came of deliveries lately: lifetime counts, looked at again and again (pure)."""

from collections import deque
from datetime import timedelta
from typing import Final, NamedTuple

WINDOW: Final = timedelta(seconds=60)
# Rates over less than this would be chance.
LEAST_S: Final = 5.0
# What differs over this time from all before, and not by chance, is how it goes now.
RECENT_S: Final = 10.0
_FACTOR: Final = 1.5
_DEVIATIONS: Final = 3


class Sample(NamedTuple):
    """Lifetime counts as of a time, in seconds since the epoch."""

    at: float
    delivered: int
    discarded: int
    filtered: int

    @property
    def finished(self) -> int:
        """All that is over, whatever came of it."""
        return self.delivered + self.discarded + self.filtered


NOTHING: Final = Sample(0.0, 0, 0, 0)


class RecentGain:
    """What the counts gained in the last WINDOW, or since it was restarted."""

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque()

    @property
    def since(self) -> float | None:
        """From when on it knows; None: it knows nothing."""
        return self._samples[0].at if self._samples else None

    @property
    def elapsed(self) -> float:
        """Over how many seconds it knows."""
        return self._samples[-1].at - self._samples[0].at if self._samples else 0.0

    @property
    def is_known(self) -> bool:
        """Whether that is long enough to say how fast it goes."""
        return self.elapsed >= LEAST_S

    @property
    def gained(self) -> Sample:
        """What was added to each count in that time; `at` is the time it took."""
        return _gained(self._samples[0], self._samples[-1]) if self._samples else NOTHING

    @property
    def latest(self) -> Sample:
        """As `gained`; of the last RECENT_S alone if it has become another pace since then."""
        whole, samples = self.gained, self._samples
        if whole.at <= 2 * RECENT_S:
            return whole
        since = samples[-1].at - RECENT_S
        begun = next(each for each in reversed(samples) if each.at <= since)
        recent = _gained(begun, samples[-1])
        return recent if _is_another(recent, whole) else whole

    def observe(self, sample: Sample) -> None:
        """The counts as they are now. Older ones than the last are passed over."""
        samples = self._samples
        if samples and sample.at <= samples[-1].at:
            return
        samples.append(sample)
        oldest = sample.at - WINDOW.total_seconds()
        while len(samples) > 2 and samples[1].at <= oldest:  # noqa: PLR2004 - one at its beginning
            samples.popleft()

    def restart(self, sample: Sample) -> None:
        """Only what comes from now on says how fast it goes."""
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
