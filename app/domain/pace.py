"""How much came of deliveries lately: lifetime counts, looked at again and again (pure)."""

from collections import deque
from datetime import timedelta
from typing import Final, NamedTuple

WINDOW: Final = timedelta(seconds=60)
# Rates over less than this would be chance.
LEAST_S: Final = 5.0


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


class Pace:
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
        if not self._samples:
            return Sample(0.0, 0, 0, 0)
        first, last = self._samples[0], self._samples[-1]
        return Sample(
            last.at - first.at,
            last.delivered - first.delivered,
            last.discarded - first.discarded,
            last.filtered - first.filtered,
        )

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
