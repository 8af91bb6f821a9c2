"""Starting and stopping a process."""

import asyncio
import resource
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@asynccontextmanager
async def stop_signals() -> AsyncIterator[asyncio.Event]:
    """Yield an event that SIGTERM or SIGINT sets. A further SIGINT (Ctrl-C) ends the process.

    A further SIGTERM does not end the process: service managers may send several, and send SIGKILL
    to end it immediately.
    """
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()

    def stop() -> None:
        stopping.set()
        loop.remove_signal_handler(signal.SIGINT)

    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, stop)
    try:
        yield stopping
    finally:
        for number in STOP_SIGNALS:
            loop.remove_signal_handler(number)


def raise_file_limit() -> None:
    """Raise the process's limit of open files and connections to the maximum that is allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
