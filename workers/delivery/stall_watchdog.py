"""Whether this process has stalled lately (pure).

One that was stopped for long (by a debugger, SIGSTOP, a machine that swaps) wakes up believing that
all it owned is still its own, while others have taken it over. It must learn what happened first.
"""

from math import inf
from typing import Final

# Less than any log needs to take a silent worker for dead.
STALL_S: Final = 3.0
# In which it learns from the log what it has lost.
QUIET_S: Final = 2.0


class StallWatchdog:
    """Hears `beat` while the loop runs; holds sends for QUIET_S after STALL_S without one.

    `now` is a monotonic clock, in seconds. Before the first beat nothing is held.
    """

    def __init__(self) -> None:
        self._alive_until = inf
        self._quiet_until = -inf
        # Until then something may be sent, if nothing else speaks against it.
        self.safe_until = inf

    def beat(self, now: float) -> bool:
        """Say that the loop runs; whether it had not run for long."""
        stalled = now >= self._alive_until
        if stalled:
            self._quiet_until = now + QUIET_S
        self._alive_until = now + STALL_S
        self.safe_until = -inf if now < self._quiet_until else self._alive_until
        return stalled

    def wait(self, now: float) -> float:
        """Seconds for which nothing may be sent, at least."""
        if now < self.safe_until:
            return 0.0
        return max(self._quiet_until - now, 0.0) or QUIET_S
