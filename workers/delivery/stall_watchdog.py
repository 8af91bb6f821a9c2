"""Whether this process has recently stalled (pure).

A process that was stopped for long (by a debugger, SIGSTOP, a machine that swaps) continues as if
it still owned its partitions, although other workers took them over. Before it sends, it must learn
what it lost.
"""

from math import inf
from typing import Final

# Less than the time after which any log declares a silent worker dead.
STALL_S: Final = 3.0
# In this time the worker learns from the log what it has lost.
QUIET_S: Final = 2.0


class StallWatchdog:
    """Gets a `beat` while the loop runs; blocks sending for QUIET_S after STALL_S without one.

    `now` is a monotonic clock in seconds. Before the first beat nothing is blocked.
    """

    def __init__(self) -> None:
        self._alive_until = inf
        self._quiet_until = -inf
        # Until then this allows sending.
        self.safe_until = inf

    def beat(self, now: float) -> bool:
        """Remember that the loop runs; return whether it had stalled."""
        stalled = now >= self._alive_until
        if stalled:
            self._quiet_until = now + QUIET_S
        self._alive_until = now + STALL_S
        self.safe_until = -inf if now < self._quiet_until else self._alive_until
        return stalled

    def wait(self, now: float) -> float:
        """Seconds for which nothing may be sent."""
        if now < self.safe_until:
            return 0.0
        return max(self._quiet_until - now, 0.0) or QUIET_S
