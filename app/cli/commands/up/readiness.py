"""Waits until the API of the service accepts messages."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from angelia_client import AsyncAngelia
from app.cli.async_client import readiness_of

_LOOK_EVERY: Final = timedelta(milliseconds=50)
_REMIND_EVERY: Final = timedelta(seconds=30)


async def until_ready(client: AsyncAngelia, notify: Callable[[str], None]) -> None:
    """Wait until the API can accept messages.

    During the wait, `notify` is called with a line from time to time.
    """
    loop = asyncio.get_running_loop()
    remind_at = loop.time() + _REMIND_EVERY.total_seconds()
    while True:
        ready, words = await readiness_of(client)
        if ready:
            return
        if loop.time() >= remind_at:
            notify(f"Not ready yet: {words}")
            remind_at += _REMIND_EVERY.total_seconds()
        await asyncio.sleep(_LOOK_EVERY.total_seconds())
