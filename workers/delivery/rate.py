"""Limits the rate of a subscription: when its next request may be sent."""

from collections import deque
from contextlib import suppress
from typing import Final

WINDOW_S: Final = 1.0

# A sender may be this many seconds late, and still send the missed requests immediately. Timers
# fire late. With this allowance, a timer with a precision of milliseconds is enough for hundreds of
# requests per second.
CATCH_UP_S: Final = 0.010


class RateLimiter:
    """A hard limit: at most `rate` requests in any window of one second.

    The send times of the last second are kept. So the limit is exact for any start of the window,
    even if `rate` was different before. A fractional rate above 1 counts as the integer below it; a
    rate below 1 leaves `1 / rate` seconds between two requests. Within the second, requests are
    spread evenly. `now` is any monotonic clock in seconds.

    Not thread-safe. A caller calls `wait`, and calls `sent` when it sends. Between the two it must
    not `await` anything.
    """

    def __init__(self, rate: float) -> None:
        self._sent: deque[float] = deque()
        # The time at which the next request is due if requests are spread evenly. The algorithm
        # GCRA calls it the theoretical arrival time.
        self._due = float("-inf")
        self.set_rate(rate)

    @property
    def rate(self) -> float:
        """The limit, in requests per second."""
        return self._rate

    def set_rate(self, rate: float) -> None:
        """Change the limit. Requests sent before the change count against the new limit, too."""
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
        """Return the seconds until the next request may be sent; 0.0 if one may be sent now."""
        ready = self._due - CATCH_UP_S
        sent = self._sent
        if len(sent) >= self._per_window:
            ready = max(ready, sent[len(sent) - self._per_window] + self._window)
        return ready - now if ready > now else 0.0

    def unsent(self, at: float) -> None:
        """Take back a request that was counted at `at`, if the request still counts."""
        with suppress(ValueError):
            self._sent.remove(at)

    def moved(self, at: float, now: float) -> bool:
        """Count a request at `now` and no longer at `at`.

        If the limit allows no request at `now`, do not count the request at all, and return False.
        """
        self.unsent(at)
        sent = self._sent
        if len(sent) >= self._per_window and sent[-self._per_window] + self._window > now:
            return False
        sent.append(now)
        return True

    def used(self, now: float) -> int:
        """The number of requests sent in the last second."""
        sent = self._sent
        if not sent or sent[-1] + WINDOW_S <= now:
            return 0
        return sum(1 for at in sent if at + WINDOW_S > now)

    def sent(self, now: float) -> None:
        """Count a request that is sent at `now`."""
        sent = self._sent
        # The time of the last request is kept even if it is old, because a rate below 1 is measured
        # from that time.
        sent.append(now)
        over = now - WINDOW_S
        while sent[0] <= over:
            sent.popleft()
        self._due = max(now, self._due) + self._interval
