"""Limits how many topics and subscriptions have their own labels in metrics."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from app.metrics.catalogue import Combined, Metric, MetricKind
from app.metrics.readings import Distribution, Labels, Readings

# The label of all topics and subscriptions without a label of their own. No group, topic or
# subscription can have this name.
OTHER: Final = "~other"
# The maximum number of counters and histograms whose last values are remembered, for topics and
# subscriptions without a label of their own.
REMEMBERED_MAX: Final = 100_000

_Series = tuple[Metric, Labels]
T = TypeVar("T")
# The key of a counter or histogram of one topic or subscription: the names of the topic or
# subscription, the metric, and the labels of the sum to which the value is added.
_Of = tuple[Labels, Metric, Labels]


class NameCap:
    """Gives only the first `names_max` topics and subscriptions labels of their own.

    A topic or a subscription is called a subject here. The values of all other subjects are added
    up under the label OTHER. A subject keeps its label as long as it exists. A subject without a
    label gets none later, so that nothing is counted under two labels. The sums of counters and
    histograms never fall, even if a subject is deleted.
    """

    def __init__(self, names_max: int) -> None:
        self._names_max = names_max
        self._named: set[Labels] = set()
        self._summed: set[Labels] = set()
        self._sums: dict[_Series, float] = {}
        self._last: dict[_Of, float] = {}
        self._observed: dict[_Series, Distribution] = {}
        self._last_observed: dict[_Of, Distribution] = {}

    @contextmanager
    def collecting(self, readings: Readings) -> Iterator["CappedReadings"]:
        """Yield an object that collects the values of all topics and subscriptions.

        When the block ends, the sums for OTHER are added to `readings`.
        """
        capped = CappedReadings(self, readings)
        yield capped
        self._named &= capped.seen
        if len(self._last) + len(self._last_observed) > REMEMBERED_MAX:
            self._last = _only(self._last, capped.seen)
            self._last_observed = _only(self._last_observed, capped.seen)
        for sums in (capped.sums | self._sums, self._observed):
            for (metric, labels), value in sums.items():
                readings.add(metric, value, labels)

    def names(self, subject: Labels) -> bool:
        """Whether this topic or subscription has a label of its own, and not the label OTHER."""
        if subject in self._named:
            return True
        if subject in self._summed or len(self._named) >= self._names_max:
            self._summed.add(subject)
            return False
        self._named.add(subject)
        return True

    def count(self, subject: Labels, series: _Series, value: float) -> None:
        """Add the increase of this subject's counter to the sum for OTHER.

        `value` is the counter now. The increase is the difference to the `value` of the last call
        for this subject.
        """
        key = (subject, *series)
        before = self._last.get(key, 0)
        # If the counter is lower than before, it has started again, so it is counted from zero.
        self._sums[series] = self._sums.get(series, 0) + value - (before if value >= before else 0)
        self._last[key] = value

    def observe(self, subject: Labels, series: _Series, value: Distribution) -> None:
        """Add the increase of this subject's histogram to the sum for OTHER.

        `value` is the histogram now. The increase is the difference to the `value` of the last call
        for this subject.
        """
        key = (subject, *series)
        before, sums = self._last_observed.get(key), self._observed
        new = value if before is None else value.since(before)
        # If a count is lower than before, the histogram has started again, so it is counted from
        # zero.
        new = value if min(new.counts) < 0 else new
        sums[series] = sums[series].plus(new) if series in sums else new
        self._last_observed[key] = value


class CappedReadings:
    """The values of metrics at one time, added for one topic or subscription after another."""

    def __init__(self, cap: NameCap, readings: Readings) -> None:
        self._cap = cap
        self._readings = readings
        self.seen: set[Labels] = set()
        self.sums: dict[_Series, float] = {}

    def add(self, metric: Metric, value: float | Distribution, subject: Labels, *more: str) -> None:
        """Add a value under the subject's own label. If it has none, add it to the sum for OTHER.

        `subject` has the names of a topic or subscription, and `more` the values of other labels.
        """
        self.seen.add(subject)
        if self._cap.names(subject):
            self._readings.add(metric, value, (*subject, *more))
            return
        series = metric, (*(OTHER for _ in subject), *more)
        if isinstance(value, Distribution):
            self._cap.observe(subject, series, value)
        else:
            self._sum(series, value, subject)

    def _sum(self, series: _Series, value: float, subject: Labels) -> None:
        metric, _ = series
        if metric.kind is MetricKind.COUNTER:
            self._cap.count(subject, series, value)
        else:
            self.sums[series] = _combined(metric, self.sums.get(series), value)


def _only(last: dict[_Of, T], subjects: Collection[Labels]) -> dict[_Of, T]:
    return {key: value for key, value in last.items() if key[0] in subjects}


def _combined(metric: Metric, others: float | None, value: float) -> float:
    if others is None:
        return value
    match metric.combined:
        case Combined.SUM:
            return others + value
        case Combined.HIGHEST:
            return max(others, value)
        case Combined.LOWEST:
            return min(others, value)
