"""Whether what a job takes grows as its rows do: seconds, and seconds for a million."""

from collections.abc import Mapping
from typing import Final

from tests.benchmarks.figures import Report

# Of rows, unless a benchmark says others.
SIZES: Final = (1_000_000, 5_000_000)


def add(report: Report, job: str, seconds: Mapping[int, float]) -> None:
    """A row for each number of rows, and how a million of the most does to one of the fewest."""
    a_million = {size: took / size * 1e6 for size, took in seconds.items()}
    first = a_million[min(seconds)]
    for size, took in seconds.items():
        figures = {"s": took, "s a million": a_million[size], "to fewest": a_million[size] / first}
        report.add(f"{job}, {size / 1e6:.1f} million", [figures])
