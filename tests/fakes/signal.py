"""Wakes all waiting tasks when something may have changed."""

import asyncio


class Signal:
    """Wakes all tasks that wait now. A task that comes later waits for the next signal."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def send(self) -> None:
        """Wake all tasks that wait."""
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - ends quietly
        """Return at the next signal, or after `timeout` seconds."""
        try:
            # Do not use asyncio.wait_for: before Python 3.12 it may swallow a cancellation.
            async with asyncio.timeout(timeout):
                await self._event.wait()
        except TimeoutError:
            return
