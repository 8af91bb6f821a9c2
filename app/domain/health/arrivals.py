"""Estimates when the messages of a partition arrived (pure).

The estimate uses the ends of the partition that were observed over time. Times are seconds since
the epoch.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

# The shortest time between two points, as a fraction of the age of the older point. So older points
# have longer times between them, and are less exact.
RESOLUTION: Final = 0.2
# If there are more points than this, some are removed. For a day, about fifty points are enough.
POINTS_MAX: Final = 64

_offset_of: Final = attrgetter("offset")
_at_of: Final = attrgetter("at")


class Point(NamedTuple):
    """The end of a partition at one time.

    At the time `at`, exactly the messages before `offset` had arrived.
    """

    at: float
    offset: float


class Arrivals:
    """The end of a partition over time, as points.

    Between two points, messages are assumed to arrive at a constant rate.
    """

    def __init__(self) -> None:
        self._points: list[Point] = []

    @property
    def first(self) -> Point | None:
        """The earliest known point; None if there is no point."""
        return self._points[0] if self._points else None

    @property
    def last(self) -> Point | None:
        """The latest known point; None if there is no point."""
        return self._points[-1] if self._points else None

    @property
    def before_last(self) -> Point | None:
        """The point before the latest known point; None if there is no such point."""
        return self._points[-2] if len(self._points) > 1 else None

    def observe(self, at: float, end: int) -> None:
        """Remember the end of the partition at the time `at`.

        If the end is lower than before, the partition was recreated, and all older points are
        forgotten.
        """
        if self._points and end < self._points[-1].offset:
            self._points.clear()
        if self._points and at <= self._points[-1].at:
            return
        self._points.append(Point(at, end))
        if len(self._points) > POINTS_MAX:
            self._points = list(_thinned(self._points))

    def recall(self, earlier: Sequence[Point]) -> None:
        """Add points from before the first known point.

        Ignore a point that is not earlier than the first known point, or that has a higher offset.
        """
        known = self._points
        for point in sorted(earlier, key=_at_of, reverse=True):
            if not known or (point.at < known[0].at and point.offset <= known[0].offset):
                known.insert(0, point)

    def time_of(self, offset: float) -> float:
        """Return when the message at `offset` arrived.

        If the message arrived before the first point, return the time of the first point.

        Raises:
            ValueError: There are no points.
        """
        if not self._points:
            raise ValueError("nothing is known of the partition")
        # If several points have the same offset, the last of them is used. At its time, the message
        # at this offset had not arrived yet.
        after = bisect_right(self._points, offset, key=_offset_of)
        if after == 0:
            return self._points[0].at
        if after == len(self._points):
            return self._points[-1].at
        return _between(self._points[after - 1], self._points[after], offset)

    def since(self, offset: float) -> list[Point]:
        """Return a point for the arrival of the message at `offset`, and all later points.

        Raises:
            ValueError: There are no points.
        """
        begun = Point(self.time_of(offset), offset)
        return [begun, *(p for p in self._points if p.offset > offset and p.at > begun.at)]

    def rate(self, since: float) -> float | None:
        """Return how many messages per second arrived between the time `since` and the last point.

        The result is None if too little is known.
        """
        last, first = self.last, self.first
        if last is None or first is None or first.at >= last.at:
            return None
        begin = max(since, first.at)
        if begin >= last.at:
            return None
        return (last.offset - self._end_at(begin)) / (last.at - begin)

    def _end_at(self, at: float) -> float:
        """Return the partition's end at the time `at`, between the first and the last point."""
        index = bisect_left(self._points, at, key=_at_of)
        after = self._points[index]
        if after.at == at or index == 0:
            return after.offset
        before = self._points[index - 1]
        share = (at - before.at) / (after.at - before.at)
        return before.offset + share * (after.offset - before.offset)


def _between(before: Point, after: Point, offset: float) -> float:
    share = (offset - before.offset) / (after.offset - before.offset)
    return before.at + share * (after.at - before.at)


def _thinned(points: Sequence[Point]) -> Iterator[Point]:
    """Yield the points in order, without points that are too close together.

    `RESOLUTION` says how close two points may be.
    """
    newest = points[-1]
    kept = [newest]
    for point in reversed(points[:-1]):
        if kept[-1].at - point.at >= RESOLUTION * (newest.at - point.at):
            kept.append(point)
    if kept[-1] != points[0]:
        kept.append(points[0])
    return reversed(kept)
