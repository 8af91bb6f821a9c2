"""Writes what is read to a CSV file as it comes, and keeps it for the curves."""

import csv
from collections import defaultdict
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.soak.curves import Point, Verdict, judged
from tests.soak.readings import MEASURES, Values

HEAD = ("seconds", "of", "measure", "unit", "value")


class Recorder:
    """The points of all curves. The file has all of them also if the soak is killed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.points: dict[tuple[str, str], list[Point]] = defaultdict(list)

    def __enter__(self) -> Self:
        self._file = self._path.open("w", buffering=1, newline="")
        self._rows = csv.writer(self._file)
        self._rows.writerow(HEAD)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def add(self, at: float, values: Values) -> None:
        """Record values that were read at this time, in seconds since the start."""
        for (measure, of), value in values.items():
            self._rows.writerow((f"{at:.1f}", of, measure.name, measure.unit, f"{value:.6g}"))
            self.points[measure.name, of].append(Point(at, value))

    def verdicts(self, *, since: float) -> dict[tuple[str, str], Verdict]:
        """Return what is said of each curve, in the order of the measures."""
        limits = {each.name: each.limit for each in MEASURES}
        order = list(limits)
        keys = sorted(self.points, key=lambda key: order.index(key[0]))
        return {key: judged(self.points[key], since=since, limit=limits[key[0]]) for key in keys}
