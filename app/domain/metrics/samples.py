"""The metrics of a subscription or topic in one step of time (pure)."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

# The upper limits of the ranges in which durations are counted, in seconds. Most limits are at most
# one second, because half of all request timeouts are one second or less. The last limit is higher,
# because a batch may take half a minute.
DURATION_BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
DURATIONS: Final = len(DURATION_BOUNDS) + 1

# The names of the counts: first the counts of messages, then the counts of attempts. Each worker
# reports the attempts that it has made.
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
# What a worker reports before its first attempt: zero for each name in ATTEMPTS, and then zero for
# each range of durations.
NO_ATTEMPTS: Final = (0,) * (len(ATTEMPTS) + DURATIONS)


class MetricsSample(NamedTuple):
    """The metrics of one step of time.

    Attributes:
        counts: The counts of messages and attempts in the step, in the order of COUNTS.
        durations: The number of attempts in each range of durations: one range below each of
            DURATION_BOUNDS, and one range above all.
        lag: The number of unfinished messages at the end of the step.
        allowed: The allowed requests per second at the end of the step; None if no worker reported
            this rate.
    """

    counts: tuple[int, ...]
    durations: tuple[int, ...]
    lag: int
    allowed: float | None = None

    @property
    def attempts(self) -> int:
        """The number of attempts: the sum of `durations`, because each attempt has one."""
        return sum(self.durations)

    def count(self, name: str) -> int:
        """Return the count with the given name, which is one of COUNTS."""
        return self.counts[COUNTS.index(name)]


def sample_of(
    messages: Sequence[int], attempts: Sequence[int], *, lag: int, allowed: float | None
) -> MetricsSample:
    """Make a sample.

    Args:
        messages: The counts of messages, in the order of MESSAGES.
        attempts: The counts of attempts, in the order of ATTEMPTS, and then one count for each
            range of durations.
        lag: The number of unfinished messages.
        allowed: The allowed requests per second; None if unknown.
    """
    split = len(ATTEMPTS)
    return MetricsSample((*messages, *attempts[:split]), tuple(attempts[split:]), lag, allowed)


def merged(samples: Sequence[MetricsSample]) -> MetricsSample:
    """Merge the samples of consecutive steps into the sample of a longer step.

    Counts are added. The lag is the largest lag. The allowed rate is the mean of the known rates.
    """
    allowed = [each.allowed for each in samples if each.allowed is not None]
    return MetricsSample(
        tuple(map(sum, zip(*(each.counts for each in samples), strict=True))),
        tuple(map(sum, zip(*(each.durations for each in samples), strict=True))),
        max(each.lag for each in samples),
        sum(allowed) / len(allowed) if allowed else None,
    )


def together(samples: Iterable[MetricsSample]) -> MetricsSample:
    """Add up the samples of several subscriptions in the same step. The lags are added, too.

    The allowed rate of the result is unknown (None).
    """
    listed = list(samples)
    return merged(listed)._replace(lag=sum(each.lag for each in listed), allowed=None)


def percentile(durations: Sequence[int], share: float) -> float | None:
    """Estimate the duration, in seconds, within which the part `share` (0 to 1) of attempts ended.

    `durations` has the number of attempts in each range. The estimate assumes that the durations in
    a range are spread evenly. The result is at most the last bound, even if attempts took longer.
    Without attempts, return None.
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
