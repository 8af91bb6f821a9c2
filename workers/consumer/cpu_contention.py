"""Whether other threads of the machine wait for the core that this one runs on (pure)."""

import math
from typing import Final

# A busy thread loses 0.03 % of its time on a free core, and 2 to 10 % where all are taken.
CONTENDED_SHARE: Final = 0.005
# What was a second ago counts a third as much as what is now.
MEMORY_SECONDS: Final = 1.0


class CpuContention:
    """What a thread lost, in about the last second, of the time in which it wanted to run."""

    def __init__(self) -> None:
        self._wanted = 0.0
        self._lost = 0.0

    def ran(self, *, took_s: float, cpu_s: float) -> None:
        """Count a stretch without a wait of its own, and the CPU time it got in it; seconds."""
        kept = math.exp(-took_s / MEMORY_SECONDS)
        self._wanted = self._wanted * kept + took_s
        self._lost = self._lost * kept + max(0.0, took_s - cpu_s)

    def is_high(self) -> bool:
        """Whether it lost more than a free core costs."""
        return self._lost > CONTENDED_SHARE * self._wanted
