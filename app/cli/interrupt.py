"""Runs a command's coroutine until it ends or the user stops it."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any


def run_until_signalled(work: Coroutine[Any, Any, None]) -> bool:
    """Run `work` until it ends, or until Ctrl-C or SIGTERM stops it.

    Return True if `work` ended by itself. The first signal cancels `work`, which then cleans up. If
    Ctrl-C is pressed during the clean-up, the clean-up is cancelled.
    """
    return asyncio.run(_cancelled_by_signals(work))


async def _cancelled_by_signals(work: Coroutine[Any, Any, None]) -> bool:
    loop = asyncio.get_running_loop()
    # A signal cancels this task, which runs `work`.
    task = asyncio.current_task()
    stopped = asyncio.Event()

    def stop(number: signal.Signals) -> None:
        # A SIGTERM after the first signal is ignored, because supervisors may send several.
        if task is not None and not (stopped.is_set() and number == signal.SIGTERM):
            stopped.set()
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    try:
        await work
    except asyncio.CancelledError:
        if not stopped.is_set():
            raise
        return False
    return True
