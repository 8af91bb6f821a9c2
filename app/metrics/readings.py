"""The values of metrics at one time."""

from collections.abc import Iterable, Iterator, Sequence
from operator import add, sub
from typing import NamedTuple

from app.metrics.catalogue import Metric


class Distribution(NamedTuple):
    """The observations of a histogram.

    Attributes:
        bounds: the upper bounds of the intervals.
        counts: the number of observations in each interval, and above the last bound. Each
            observation counts in only one interval: the counts are not cumulative.
        total: the sum of all observed values.
    """

    bounds: Sequence[float]
    counts: Sequence[int]
    total: float

    def plus(self, other: "Distribution") -> "Distribution":
        """Return the sum of this histogram and `other`, which must have the same bounds."""
        counts = tuple(map(add, self.counts, other.counts))
        return Distribution(self.bounds, counts, self.total + other.total)

    def since(self, before: "Distribution") -> "Distribution":
        """Return the observations since `before`, an earlier state of the same histogram."""
        counts = tuple(map(sub, self.counts, before.counts))
        return Distribution(self.bounds, counts, self.total - before.total)


Value = int | float | Distribution
Labels = tuple[str, ...]


class Readings:
    """The values of metrics, by metric and labels, in the order in which they were added."""

    def __init__(self) -> None:
        self._read: dict[Metric, list[tuple[Labels, Value]]] = {}

    def add(self, metric: Metric, value: Value, labels: Labels = ()) -> None:
        """Add a value. `labels` has a value for each of the metric's labels, in order.

        Raises:
            ValueError: The number of labels is wrong.
        """
        if len(labels) != len(metric.labels):
            raise ValueError(f"{metric.name} has the labels {metric.labels}, not {len(labels)}")
        self._read.setdefault(metric, []).append((labels, value))

    def add_each(self, read: Iterable[tuple[Metric, Value]], labels: Labels = ()) -> None:
        """Add several values with the same labels."""
        for metric, value in read:
            self.add(metric, value, labels)

    def __iter__(self) -> Iterator[tuple[Metric, Sequence[tuple[Labels, Value]]]]:
        """Yield each metric with all its values."""
        return iter(self._read.items())
