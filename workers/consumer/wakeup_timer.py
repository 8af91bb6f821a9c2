"""One timer for all the times at which a consumer has to check for work."""

import asyncio
from collections.abc import Callable


class WakeupTimer:
    """Calls back at the earliest of the times that were set since the last call."""

    def __init__(self, loop: asyncio.AbstractEventLoop, wake: Callable[[], None]) -> None:
        self._loop = loop
        self._wake = wake
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0

    def set(self, due: float, now: float) -> None:
        """Call back at `due` (monotonic seconds) or earlier."""
        due = max(due, now)
        if self._timer is not None:
            if self._due <= due:
                return
            self._timer.cancel()
        self._due = due
        self._timer = self._loop.call_later(due - now, self._on_timer)

    def cancel(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timer(self) -> None:
        self._timer = None
        self._wake()
