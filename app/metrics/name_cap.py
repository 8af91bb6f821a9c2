"""How many subjects have labels of their own: no more than a collector can take."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from app.metrics.catalogue import Combined, Metric, MetricKind
from app.metrics.readings import Distribution, Labels, Readings

# No name of a group, topic or subscription can be like this.
OTHER: Final = "~other"
# Counters of who was summed up, also when they were not there for a while: up to here.
REMEMBERED_MAX: Final = 100_000

_Series = tuple[Metric, Labels]
T = TypeVar("T")
# A series as it is counted for one of those that are summed up in it.
_Of = tuple[Labels, Metric, Labels]


class NameCap:
    """The first `names_max` subjects keep their names; all others are summed up as OTHER.

    Who has a name keeps it as long as it is there, and who was summed up stays so: nothing is
    counted under two labels. The sums of counters and histograms never fall, also when one of them
    is deleted.
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
        """Takes what is read of all subjects, once each; the sums are added at the end."""
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
        """Whether it has a name of its own."""
        if subject in self._named:
            return True
        if subject in self._summed or len(self._named) >= self._names_max:
            self._summed.add(subject)
            return False
        self._named.add(subject)
        return True

    def count(self, subject: Labels, series: _Series, value: float) -> None:
        """Add to a sum what a counter has counted since it was read last."""
        key = (subject, *series)
        before = self._last.get(key, 0)
        # One that begins again has counted all that it says.
        self._sums[series] = self._sums.get(series, 0) + value - (before if value >= before else 0)
        self._last[key] = value

    def observe(self, subject: Labels, series: _Series, value: Distribution) -> None:
        """Add to a sum what a histogram has observed since it was read last."""
        key = (subject, *series)
        before, sums = self._last_observed.get(key), self._observed
        new = value if before is None else value.since(before)
        # One that begins again has observed all that it says.
        new = value if min(new.counts) < 0 else new
        sums[series] = sums[series].plus(new) if series in sums else new
        self._last_observed[key] = value


class CappedReadings:
    """Readings of one collection, by subject."""

    def __init__(self, cap: NameCap, readings: Readings) -> None:
        self._cap = cap
        self._readings = readings
        self.seen: set[Labels] = set()
        self.sums: dict[_Series, float] = {}

    def add(self, metric: Metric, value: float | Distribution, subject: Labels, *more: str) -> None:
        """`subject` are the names of a topic or subscription, `more` the values of other labels."""
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
