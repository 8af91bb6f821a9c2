"""When the messages of a partition arrived, as far as that was seen (pure).

Times are seconds since the epoch.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

# Points are this far apart, measured by their age: what is long ago is known less exactly.
RESOLUTION: Final = 0.2
# From here on points are thinned out: a day takes about fifty.
POINTS_MAX: Final = 64

_offset_of: Final = attrgetter("offset")
_at_of: Final = attrgetter("at")


class Point(NamedTuple):
    """All messages before `offset` had arrived at that time, and none from it on."""

    at: float
    offset: float


class Arrivals:
    """A partition's end over time. Between two points messages arrived evenly."""

    def __init__(self) -> None:
        self._points: list[Point] = []

    @property
    def first(self) -> Point | None:
        """The earliest that is known."""
        return self._points[0] if self._points else None

    @property
    def last(self) -> Point | None:
        """The latest that is known."""
        return self._points[-1] if self._points else None

    @property
    def before_last(self) -> Point | None:
        """The one before the latest."""
        return self._points[-2] if len(self._points) > 1 else None

    def observe(self, at: float, end: int) -> None:
        """The partition ends there now. One that ends earlier than before is another one."""
        if self._points and end < self._points[-1].offset:
            self._points.clear()
        if self._points and at <= self._points[-1].at:
            return
        self._points.append(Point(at, end))
        if len(self._points) > POINTS_MAX:
            self._points = list(_thinned(self._points))

    def recall(self, earlier: Sequence[Point]) -> None:
        """Learn of a time before the first point; what contradicts it is passed over."""
        known = self._points
        for point in sorted(earlier, key=_at_of, reverse=True):
            if not known or (point.at < known[0].at and point.offset <= known[0].offset):
                known.insert(0, point)

    def time_of(self, offset: float) -> float:
        """When the message at `offset` arrived: at the earliest when the first point was.

        ValueError when nothing is known.
        """
        if not self._points:
            raise ValueError("nothing is known of the partition")
        # Of those that say the same the last is the one before: it had not arrived then.
        after = bisect_right(self._points, offset, key=_offset_of)
        if after == 0:
            return self._points[0].at
        if after == len(self._points):
            return self._points[-1].at
        return _between(self._points[after - 1], self._points[after], offset)

    def since(self, offset: float) -> list[Point]:
        """From the arrival of the message at `offset` to the last point; ValueError as above."""
        begun = Point(self.time_of(offset), offset)
        return [begun, *(p for p in self._points if p.offset > offset and p.at > begun.at)]

    def rate(self, since: float) -> float | None:
        """Messages a second from then to the last point; None: too little is known."""
        last, first = self.last, self.first
        if last is None or first is None or first.at >= last.at:
            return None
        begin = max(since, first.at)
        if begin >= last.at:
            return None
        return (last.offset - self._end_at(begin)) / (last.at - begin)

    def _end_at(self, at: float) -> float:
        """The partition's end at a time that lies between the first and the last point."""
        place = bisect_left(self._points, at, key=_at_of)
        after = self._points[place]
        if after.at == at or place == 0:
            return after.offset
        before = self._points[place - 1]
        share = (at - before.at) / (after.at - before.at)
        return before.offset + share * (after.offset - before.offset)


def _between(before: Point, after: Point, offset: float) -> float:
    share = (offset - before.offset) / (after.offset - before.offset)
    return before.at + share * (after.at - before.at)


def _thinned(points: Sequence[Point]) -> Iterator[Point]:
    """The points in order, without those that lie close together for their age."""
    newest = points[-1]
    kept = [newest]
    for point in reversed(points[:-1]):
        if kept[-1].at - point.at >= RESOLUTION * (newest.at - point.at):
            kept.append(point)
    if kept[-1] != points[0]:
        kept.append(points[0])
    return reversed(kept)
