"""Detects whether this process has recently stalled (pure).

A process may not run for long, because of a debugger, SIGSTOP, or a machine that swaps. It then
continues as if it still owned its partitions, although other workers have taken them over. Before
it sends again, it must learn from the log which partitions it lost.
"""

from math import inf
from typing import Final

# A process that did not run for this many seconds has stalled. The log declares a worker dead only
# after a longer time.
STALL_S: Final = 3.0
# How many seconds sending is blocked after a stall. In this time the worker learns from the log
# which partitions it has lost.
QUIET_S: Final = 2.0


class StallWatchdog:
    """Blocks sending for two seconds, if `beat` was not called for three seconds.

    `now` is a monotonic clock in seconds. Before the first call of `beat` nothing is blocked.
    """

    def __init__(self) -> None:
        self._alive_until = inf
        self._quiet_until = -inf
        # The time until which sending is allowed.
        self.safe_until = inf

    def beat(self, now: float) -> bool:
        """Called regularly while the event loop runs. Return whether the loop had stalled."""
        stalled = now >= self._alive_until
        if stalled:
            self._quiet_until = now + QUIET_S
        self._alive_until = now + STALL_S
        self.safe_until = -inf if now < self._quiet_until else self._alive_until
        return stalled

    def wait(self, now: float) -> float:
        """Return for how many seconds nothing may be sent."""
        if now < self.safe_until:
            return 0.0
        return max(self._quiet_until - now, 0.0) or QUIET_S
