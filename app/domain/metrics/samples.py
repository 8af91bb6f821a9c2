"""What happened to a subscription or a topic in a step of time: values that can be added (pure)."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

# The upper bounds of the counted durations, in seconds. Half of all timeouts are one second or
# less; batches may take half a minute.
DURATION_BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
DURATIONS: Final = len(DURATION_BOUNDS) + 1

# The counts of messages, and those of attempts. A worker reports the latter by itself.
MESSAGES: Final = ("published", "delivered", "discarded", "filtered")
ATTEMPTS: Final = (
    "retries",
    "codes_4xx",
    "codes_5xx",
    "codes_other",
    "timeouts",
    "other_errors",
)
COUNTS: Final = (*MESSAGES, *ATTEMPTS)
FAILURES: Final = ATTEMPTS[1:]
NO_MESSAGES: Final = (0,) * len(MESSAGES)
# The numbers that a worker reports of the attempts: their counts, and how many took how long.
NO_ATTEMPTS: Final = (0,) * (len(ATTEMPTS) + DURATIONS)


class MetricsSample(NamedTuple):
    """The counts of a step, in the order of COUNTS, and how many attempts took how long.

    `durations` has one count for each of DURATION_BOUNDS and one for longer attempts. `lag` is in
    messages, and `allowed` the limit of the rate (requests per second), both at the end of the
    step. `allowed` is None if no worker reported one.
    """

    counts: tuple[int, ...]
    durations: tuple[int, ...]
    lag: int
    allowed: float | None = None

    @property
    def attempts(self) -> int:
        """The number of all attempts; each has a duration."""
        return sum(self.durations)

    def count(self, name: str) -> int:
        """Return one of COUNTS."""
        return self.counts[COUNTS.index(name)]


def sample_of(
    messages: Sequence[int], attempts: Sequence[int], *, lag: int, allowed: float | None
) -> MetricsSample:
    """Return the sample of counted `messages` (in the order of MESSAGES) and reported `attempts`.

    `attempts` has the counts in the order of ATTEMPTS, then those by duration.
    """
    split = len(ATTEMPTS)
    return MetricsSample((*messages, *attempts[:split]), tuple(attempts[split:]), lag, allowed)


def merged(samples: Sequence[MetricsSample]) -> MetricsSample:
    """Return the sample of a longer step: the sums of the counts, and the largest lag.

    The allowed rate is the mean of those that are known.
    """
    allowed = [each.allowed for each in samples if each.allowed is not None]
    return MetricsSample(
        tuple(map(sum, zip(*(each.counts for each in samples), strict=True))),
        tuple(map(sum, zip(*(each.durations for each in samples), strict=True))),
        max(each.lag for each in samples),
        sum(allowed) / len(allowed) if allowed else None,
    )


def together(samples: Iterable[MetricsSample]) -> MetricsSample:
    """Return the sample of several subscriptions in the same step: sums, also of the lag."""
    listed = list(samples)
    return merged(listed)._replace(lag=sum(each.lag for each in listed), allowed=None)


def percentile(durations: Sequence[int], share: float) -> float | None:
    """Return the duration in seconds that this share of the attempts did not exceed.

    It is estimated within the bounds of its count, as if durations were spread evenly there. For
    attempts longer than the last bound, it is that bound. None without attempts.
    """
    total = sum(durations)
    if not total:
        return None
    wanted, before = share * total, 0
    reached = [before := before + count for count in durations]
    index = bisect_left(reached, wanted)
    if index >= len(DURATION_BOUNDS):
        return DURATION_BOUNDS[-1]
    low, high = _BUCKETS[index]
    inside = (wanted - (reached[index] - durations[index])) / durations[index]
    return low + (high - low) * inside


_BUCKETS: Final = tuple(pairwise((0.0, *DURATION_BOUNDS)))
