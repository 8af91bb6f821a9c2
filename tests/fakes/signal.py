"""Tells all who wait that something may have changed."""

import asyncio


class Signal:
    """Wakes all who wait now; who comes later waits for the next one."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def send(self) -> None:
        """Wake everyone who waits."""
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - ends quietly
        """Return at the next signal, or after `timeout` seconds."""
        try:
            # Not asyncio.wait_for: before Python 3.12 it may swallow a cancellation.
            async with asyncio.timeout(timeout):
                await self._event.wait()
        except TimeoutError:
            return
