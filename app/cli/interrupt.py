"""Runs a command's coroutine until it ends or the user ends it."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any


def run_until_told(work: Coroutine[Any, Any, None]) -> bool:
    """Run `work` until it ends, or Ctrl-C or SIGTERM ends it; True when it ended by itself.

    The first signal cancels `work`, which then cleans up; a second one cancels its clean-up.
    """
    return asyncio.run(_cancelled_by_signals(work))


async def _cancelled_by_signals(work: Coroutine[Any, Any, None]) -> bool:
    loop = asyncio.get_running_loop()
    # The loop hands back the one task that runs this; a coroutine always has one.
    task = asyncio.current_task()
    told = asyncio.Event()

    def tell() -> None:
        told.set()
        if task is not None:
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, tell)
    try:
        await work
    except asyncio.CancelledError:
        if not told.is_set():
            raise
        return False
    return True
