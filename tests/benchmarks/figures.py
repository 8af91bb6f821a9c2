"""A benchmark's figures: printed as a table, and written as JSON and a plot under `build/bench`.

A figure is the median of rounds with their least and greatest, because a machine that does other
things meanwhile spoils a round or two. Under each table stands how fast the machine is.
"""

import json
import statistics
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple, Self

import matplotlib as mpl

from tests.benchmarks import yardstick

mpl.use("Agg")
from matplotlib import pyplot as plt

FOLDER: Final = Path("build/bench")


class Figure(NamedTuple):
    """A median with the least and the greatest of the rounds; they are one if there was one."""

    median: float
    least: float
    greatest: float

    @classmethod
    def of(cls, rounds: Sequence[float]) -> Self:
        """Of at least one round."""
        return cls(statistics.median(rounds), min(rounds), max(rounds))

    def __str__(self) -> str:
        """As in a table: 12.3 (11.9-14.0)."""
        if self.least == self.greatest:
            return _short(self.median)
        return f"{_short(self.median)} ({_short(self.least)}-{_short(self.greatest)})"


class Report:
    """Rows of figures under one name; a row may be without some columns."""

    def __init__(self, name: str, title: str) -> None:
        self.name = name
        self._title = title
        self._rows: dict[str, dict[str, Figure]] = {}
        yardstick.stock_us()  # before anything else runs
        # Before the first row and after each: what else the machine did meanwhile shows.
        self._loop = [yardstick.loop_us()]

    def add(self, row: str, rounds: Sequence[Mapping[str, float]]) -> None:
        """What the rounds of one case found, column by column; all have the same columns."""
        self._rows[row] = {
            column: Figure.of([each[column] for each in rounds]) for column in rounds[0]
        }
        self._loop.append(yardstick.loop_us())

    def write(self, *, plots: Sequence[str] = ()) -> None:
        """Print the table, and write it; each column in `plots` gets a chart."""
        lines = yardstick.said(Figure.of(self._loop).median, max(self._loop))
        self._print(lines)
        FOLDER.mkdir(parents=True, exist_ok=True)
        report = {
            "title": self._title,
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": lines,
            "rows": {
                row: {column: figure._asdict() for column, figure in figures.items()}
                for row, figures in self._rows.items()
            },
        }
        (FOLDER / f"{self.name}.json").write_text(json.dumps(report, indent=2) + "\n")
        if plots:
            self._plot(plots)

    def _print(self, lines: Sequence[str]) -> None:
        columns = list({column: None for figures in self._rows.values() for column in figures})
        table = [["", *columns]] + [
            [row, *(str(figures.get(column, "")) for column in columns)]
            for row, figures in self._rows.items()
        ]
        widths = [max(len(line[n]) for line in table) for n in range(len(table[0]))]
        print(f"\n{self._title}")
        for name, *cells in table:
            padded = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)]
            print("  ".join(["", name.ljust(widths[0]), *padded]))
        print("\n".join(f"  {line}" for line in lines))

    def _plot(self, columns: Sequence[str]) -> None:
        figure, charts = plt.subplots(
            1,
            len(columns),
            figsize=(5 * len(columns) + 2, 1.2 + 0.34 * len(self._rows)),
            squeeze=False,
            sharey=True,
            constrained_layout=True,
        )
        names = list(self._rows)
        for chart, column in zip(charts[0], columns, strict=True):
            cells = [self._rows[name][column] for name in names]
            medians = [cell.median for cell in cells]
            below = [cell.median - cell.least for cell in cells]
            above = [cell.greatest - cell.median for cell in cells]
            bars = chart.barh(names, medians, xerr=(below, above), capsize=2)
            chart.bar_label(bars, labels=[_short(each) for each in medians], padding=4)
            chart.set(xlabel=column)
            chart.margins(x=0.15)
        charts[0][0].invert_yaxis()
        figure.suptitle(self._title)
        figure.savefig(FOLDER / f"{self.name}.png", dpi=110)
        plt.close(figure)


def _short(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 1 else f"{value:.3g}"
