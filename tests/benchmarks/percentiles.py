"""Percentiles, as all benchmarks print them."""

import statistics
from collections.abc import Sequence


def percentile(values: Sequence[float], percent: int) -> float:
    """The value below which so many in a hundred lie, between the two nearest."""
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]
