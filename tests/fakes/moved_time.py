"""The running event loop with another clock, which stands still until a test moves it."""

import asyncio
from collections.abc import Callable


class _Timer:
    def __init__(self, due: float, act: Callable[[], object]) -> None:
        self.due = due
        self.act = act
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class MovedTime:
    """The methods of an event loop that a server connection uses."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.call_soon = loop.call_soon
        self.create_task = loop.create_task
        self._now = 1_000.0
        self._timers: list[_Timer] = []

    def time(self) -> float:
        return self._now

    def call_later(self, delay: float, act: Callable[[], object]) -> _Timer:
        timer = _Timer(self._now + delay, act)
        self._timers.append(timer)
        return timer

    def passes(self, seconds: float) -> None:
        """Move the clock forwards, and run the timers that become due."""
        end = self._now + seconds
        while due := [each for each in self._timers if each.due <= end and not each.cancelled]:
            timer = min(due, key=lambda each: each.due)
            self._timers.remove(timer)
            self._now = timer.due
            timer.act()
        self._now = end
