"""Draws the curves as small multiples: one row for a measure, and a chart for each process."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import matplotlib as mpl

from tests.soak.curves import Point, Verdict
from tests.soak.readings import MEASURES

mpl.use("Agg")
from matplotlib import pyplot as plt

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS: Final = 4
COLOURS: Final = {True: "tab:green", False: "tab:red", None: "tab:gray"}
UNITS: Final = {each.name: each.unit for each in MEASURES}

Key = tuple[str, str]


def draw(
    path: Path,
    points: Mapping[Key, Sequence[Point]],
    verdicts: Mapping[Key, Verdict],
    *,
    title: str,
    since: float,
) -> None:
    """Write the picture. What is before `since` seconds is grey: it is not judged."""
    rows = -(-len(verdicts) // COLUMNS)
    figure, charts = plt.subplots(
        rows, COLUMNS, figsize=(4.4 * COLUMNS, 2.1 * rows), squeeze=False, constrained_layout=True
    )
    for chart in charts.flat:
        chart.set_axis_off()
    for chart, (key, verdict) in zip(charts.flat, verdicts.items(), strict=False):
        _draw_one(chart, key, points[key], verdict=verdict, since=since)
    figure.suptitle(title)
    figure.savefig(path, dpi=100)
    plt.close(figure)


def _draw_one(
    chart: "Axes", key: Key, points: Sequence[Point], *, verdict: Verdict, since: float
) -> None:
    name, of = key
    chart.set_axis_on()
    minutes = [each.at / 60 for each in points]
    chart.plot(minutes, [each.value for each in points], lw=0.8, color=COLOURS[verdict.flat])
    chart.axvspan(0, since / 60, color="0.93", zorder=0)
    chart.set_ylim(bottom=0, top=1.15 * max((each.value for each in points), default=1) or 1)
    chart.set_title(f"{of}: {name} {UNITS[name]}\n{verdict}", fontsize=7)
    chart.tick_params(labelsize=6)
    chart.set_xlabel("minutes", fontsize=6)
