"""Whether a curve is flat: its slope over all but the first minutes, compared with a limit.

The time that is judged is cut into 60 equal parts, and each part has its median: so a peak does not
count. The slope is Theil's and Sen's: the median of the slopes between each two parts. Up to 29 %
of the parts may have any values without moving it much. A curve that falls is flat, too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import Final, NamedTuple

PARTS: Final = 60
# Less time shows no slope: what a process uses goes up and down within some minutes.
JUDGED_MIN_S: Final = 30 * 60
HOUR_S: Final = 3_600


class Point(NamedTuple):
    """A value, and when it was read: seconds since the start."""

    at: float
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """What is measured, and how much it may grow in an hour; None if it may grow by design."""

    name: str
    unit: str
    limit: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is said of a curve: its slope in an hour, and why it is not judged, if it is not."""

    slope: float | None
    limit: float | None
    reason: str = ""

    @property
    def flat(self) -> bool | None:
        """Whether it is flat; None if it is not judged."""
        if self.slope is None or self.limit is None or self.reason:
            return None
        return self.slope <= self.limit

    def __str__(self) -> str:
        grows = "" if self.slope is None else f"{self.slope:+.3g} in an hour"
        if self.flat is None:
            return ", ".join(filter(None, (grows, self.reason or "grows by design")))
        return f"{grows}, {'flat' if self.flat else 'NOT FLAT'} (limit {self.limit:g})"


def judged(points: Sequence[Point], *, since: float, limit: float | None) -> Verdict:
    """Judge what was read from `since` on, in seconds since the start."""
    rest = [each for each in points if each.at >= since]
    slope = slope_per_hour(rest)
    short = not rest or rest[-1].at - since < JUDGED_MIN_S
    reason = f"not judged: less than {JUDGED_MIN_S // 60} minutes" if short else ""
    return Verdict(slope=slope, limit=limit, reason=reason)


def slope_per_hour(points: Sequence[Point]) -> float | None:
    """Return the slope of these points, in time order; None if it has none."""
    slopes = [
        (later.value - earlier.value) / (later.at - earlier.at) * HOUR_S
        for earlier, later in combinations(medians(points), 2)
    ]
    return median(slopes) if slopes else None


def medians(points: Sequence[Point]) -> list[Point]:
    """Return the median time and value of each of up to PARTS equal parts of the time."""
    if not points:
        return []
    begin, end = points[0].at, points[-1].at
    parts: dict[int, list[Point]] = {}
    for each in points:
        part = int((each.at - begin) / (end - begin) * PARTS) if end > begin else 0
        parts.setdefault(min(part, PARTS - 1), []).append(each)
    return [
        Point(median(each.at for each in part), median(each.value for each in part))
        for part in parts.values()
    ]


Curves = Mapping[tuple[str, str], Sequence[Point]]
"""The points that were read, by the name of the measure, and of what it was measured."""
