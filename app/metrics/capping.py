"""How many subjects have labels of their own: no more than a collector can take."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from app.metrics.catalogue import Combined, Kind, Metric
from app.metrics.readings import Distribution, Labels, Readings

# No name of a group, topic or subscription can be like this.
OTHER: Final = "~other"
# Counters of who was summed up, also when they were not there for a while: up to here.
REMEMBERED_MAX: Final = 100_000

_Series = tuple[Metric, Labels]


class NameCap:
    """The first `names_max` subjects keep their names; all others are summed up as OTHER.

    Who has a name keeps it as long as it is there, and who was summed up stays so: nothing is
    counted under two labels. The sum of a counter never falls, also when one of them is deleted; of
    histograms there is none.
    """

    def __init__(self, names_max: int) -> None:
        self._names_max = names_max
        self._named: set[Labels] = set()
        self._summed: set[Labels] = set()
        self._sums: dict[_Series, float] = {}
        self._last: dict[tuple[Labels, Metric, Labels], float] = {}

    @contextmanager
    def collecting(self, readings: Readings) -> Iterator["CappedReadings"]:
        """Takes what is read of all subjects, once each; the sums are added at the end."""
        capped = CappedReadings(self, readings)
        yield capped
        self._named &= capped.seen
        if len(self._last) > REMEMBERED_MAX:
            self._last = {key: last for key, last in self._last.items() if key[0] in capped.seen}
        sums = capped.sums | self._sums
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
        elif not isinstance(value, Distribution):
            self._sum((metric, (*(OTHER for _ in subject), *more)), value, subject)

    def _sum(self, series: _Series, value: float, subject: Labels) -> None:
        metric, _ = series
        if metric.kind is Kind.COUNTER:
            self._cap.count(subject, series, value)
        else:
            self.sums[series] = _combined(metric, self.sums.get(series), value)


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
