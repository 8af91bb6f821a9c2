"""When the next request of a subscription may leave."""

from collections import deque
from typing import Final

WINDOW_S: Final = 1.0

# Timers fire late. A sender that is late by up to this much sends the requests it missed at once,
# so that a rate of hundreds a second is reached with a timer of milliseconds.
CATCH_UP_S: Final = 0.010


class RateLimiter:
    """A hard limit: in any window of one second, at most `rate` sends.

    The send times of the last second are kept, which makes the limit exact wherever the window
    starts and whatever `rate` was before. A fractional rate above 1 counts as the integer below
    it; a rate below 1 leaves `1 / rate` seconds between two sends. Within the second, sends are
    spread evenly. `now` is any monotonic clock in seconds, and it never runs backwards.

    Not for several threads. A caller asks `wait`, and calls `sent` in the same step in which it
    sends; between the two it must not await.
    """

    def __init__(self, rate: float) -> None:
        self._sent: deque[float] = deque()
        # When the next send is due if sends are spread evenly (GCRA's theoretical arrival time).
        self._due = float("-inf")
        self.set_rate(rate)

    @property
    def rate(self) -> float:
        """The limit, in sends per second."""
        return self._rate

    def set_rate(self, rate: float) -> None:
        """Change the limit. It holds at once, for what was sent before the change too."""
        if rate <= 0:
            message = f"a rate is greater than zero, not {rate}"
            raise ValueError(message)
        self._rate = rate
        self._interval = 1 / rate
        self._per_window = max(1, int(rate))
        self._window = max(WINDOW_S, self._interval)
        if self._sent:
            self._due = self._sent[-1] + self._interval

    def wait(self, now: float) -> float:
        """Seconds until the next send may leave; 0.0 when it may now."""
        ready = self._due - CATCH_UP_S
        sent = self._sent
        if len(sent) >= self._per_window:
            ready = max(ready, sent[len(sent) - self._per_window] + self._window)
        return ready - now if ready > now else 0.0

    def used(self, now: float) -> int:
        """How many were sent in the last second."""
        sent = self._sent
        if not sent or sent[-1] + WINDOW_S <= now:
            return 0
        return sum(1 for at in sent if at + WINDOW_S > now)

    def sent(self, now: float) -> None:
        """Count a send that leaves at `now`."""
        sent = self._sent
        # The last one is kept however old: it is what a rate below 1 is measured from.
        sent.append(now)
        over = now - WINDOW_S
        while sent[0] <= over:
            sent.popleft()
        self._due = max(now, self._due) + self._interval
