"""An event loop whose clock jumps to the next timer when nothing else is ready to run.

So a test of hours takes no real time.
"""

import asyncio
import selectors
from collections.abc import Callable
from contextvars import Context


class _Leaping(selectors.SelectSelector):
    seconds = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0 if timeout else timeout)
        if not found and timeout:
            self.seconds += timeout
        return found


class LeapingLoop(asyncio.SelectorEventLoop):
    """An event loop for code without connections.

    Its clock could jump past an answer on its way.
    """

    def __init__(self) -> None:
        self._leaping = _Leaping()
        self._timers: list[asyncio.TimerHandle] = []
        super().__init__(self._leaping)

    def time(self) -> float:
        return self._leaping.seconds

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: object,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        timer = super().call_at(when, callback, *args, context=context)
        self._timers.append(timer)
        return timer

    def running_timers(self, *, longer_than_s: float) -> int:
        """Return how many timers are due more than `longer_than_s` seconds from now."""
        due = self.time() + longer_than_s
        return sum(not each.cancelled() and each.when() > due for each in self._timers)


async def passes(seconds: float) -> None:
    """Wait until this many seconds have passed on the clock of a leaping loop."""
    loop = asyncio.get_running_loop()
    over = loop.create_future()
    timer = loop.call_later(seconds, over.set_result, None)
    try:
        await over
    finally:
        timer.cancel()
