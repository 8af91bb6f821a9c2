"""The duration of the requests of one subscription."""

from bisect import bisect_left
from typing import Final

# The upper bounds of the counted durations, in seconds. Half of all timeouts are one second or
# less; batches may take half a minute.
BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Latency:
    """The number of requests by duration since the worker started.

    `within` has one count for each of BOUNDS and one for longer requests; each request is in
    exactly one of them. `seconds` is the sum of all durations.
    """

    __slots__ = ("seconds", "within")

    def __init__(self) -> None:
        self.seconds = 0.0
        self.within = [0] * (len(BOUNDS) + 1)

    def add(self, seconds: float) -> None:
        """Count one request. This takes 0.2 µs, with reading the clock."""
        self.seconds += seconds
        self.within[bisect_left(BOUNDS, seconds)] += 1
