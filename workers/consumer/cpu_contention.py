"""Detects whether other threads compete for the core that this thread runs on (pure)."""

import math
from typing import Final

# If the thread does not get the CPU for more than this part (from 0 to 1) of its time, other
# threads compete for its core. A busy thread loses 0.03 % of its time on a free core, and 2 to 10 %
# on a core for which others compete.
CONTENDED_SHARE: Final = 0.005
# How fast old measurements lose weight, in seconds. After this time a measurement has a third of
# its weight.
MEMORY_SECONDS: Final = 1.0


class CpuContention:
    """The part of the time (from 0 to 1) in which a thread wanted to run but did not get the CPU.

    It is measured over about the last second.
    """

    def __init__(self) -> None:
        self._wanted = 0.0
        self._lost = 0.0

    def ran(self, *, took_s: float, cpu_s: float) -> None:
        """Add a period in which the thread always had work to do.

        Args:
            took_s: The length of the period in seconds.
            cpu_s: The CPU time of the thread in this period.
        """
        kept = math.exp(-took_s / MEMORY_SECONDS)
        self._wanted = self._wanted * kept + took_s
        self._lost = self._lost * kept + max(0.0, took_s - cpu_s)

    def is_high(self) -> bool:
        """Whether the thread waits for the CPU so often that other threads compete for its core."""
        return self._lost > CONTENDED_SHARE * self._wanted
