"""The metrics of a subscription or topic in one step of time (pure)."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

# The upper bounds of the counted durations, in seconds. Half of all request timeouts are one second
# or less. A batch may take half a minute.
DURATION_BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
DURATIONS: Final = len(DURATION_BOUNDS) + 1

# The names of the counts: of messages, and of attempts. Each worker reports its own attempts.
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
# What a worker reports before any attempt: zero for each of ATTEMPTS, then for each duration.
NO_ATTEMPTS: Final = (0,) * (len(ATTEMPTS) + DURATIONS)


class MetricsSample(NamedTuple):
    """The metrics of one step of time.

    Attributes:
        counts: The counts of messages and attempts in the step, in the order of COUNTS.
        durations: The number of attempts by duration: one number for each of DURATION_BOUNDS, and
            one for longer attempts.
        lag: The number of unfinished messages at the end of the step.
        allowed: The allowed requests per second at the end of the step; None if no worker reported
            it.
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
        attempts: The counts of attempts, in the order of ATTEMPTS, and then by duration.
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
    """Add up the samples of several subscriptions in the same step. The lags are added, too."""
    listed = list(samples)
    return merged(listed)._replace(lag=sum(each.lag for each in listed), allowed=None)


def percentile(durations: Sequence[int], share: float) -> float | None:
    """Estimate in how many seconds a part of the attempts, `share` (0 to 1), had ended.

    The estimate assumes that durations are spread evenly between two bounds. The result is at most
    the last bound, even if attempts took longer. Without attempts, return None.
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
