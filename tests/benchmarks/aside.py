"""The API in a thread of its own, so that what it costs, and how long its turns are, can be told.

Requests come from the thread of the test, whose CPU time is told from the rest of the process.
"""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, Self

import psutil
import uvicorn
import uvloop
from starlette.types import ASGIApp

from app.api.server.connection import BoundedConnection

_NANO: Final = 1e9


class Spent(NamedTuple):
    """CPU seconds so far: of this process but for the thread that asks, and of PostgreSQL."""

    api: float
    postgres: float

    def since(self, before: "Spent") -> "Spent":
        """What was spent after that."""
        return Spent(self.api - before.api, self.postgres - before.postgres)


class Meter:
    """Tells CPU time, down to microseconds where the kernel keeps it."""

    def __init__(self, postgres_pid: int) -> None:
        self._postgres = psutil.Process(postgres_pid)

    def read(self) -> Spent:
        """As of now; of backends that have ended nothing is known."""
        backends = [each.pid for each in self._postgres.children()]
        return Spent(
            time.process_time() - time.thread_time(), sum(_on_cpu(each) for each in backends)
        )


def _on_cpu(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / _NANO
    except FileNotFoundError:
        return 0.0


class Served:
    """An application that is served in a thread of its own."""

    def __init__(self, app: ASGIApp) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._server = uvicorn.Server(
            uvicorn.Config(app, http=BoundedConnection, ws="none", log_config=None)
        )
        self._thread = threading.Thread(target=self._run, name="api")

    async def __aenter__(self) -> Self:
        self._thread.start()
        return self

    async def __aexit__(self, *_error: object) -> None:
        self._server.should_exit = True
        await asyncio.to_thread(self._thread.join)
        self._listening.close()

    @contextmanager
    def watched(self) -> Iterator["Turns"]:
        """Watch its turns meanwhile, which costs CPU."""
        turns = Turns(self._loop)
        try:
            yield turns
        finally:
            turns.watching = False

    def _run(self) -> None:
        uvloop.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self._server.serve(sockets=[self._listening])


class Turns:
    """The longest turn of a loop while it is `watching`, in CPU time of the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.watching = True
        self.longest_s = 0.0
        self._loop = loop
        self._began = 0.0
        loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        self._began = time.thread_time()
        self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        now = time.thread_time()
        self.longest_s, self._began = max(self.longest_s, now - self._began), now
        if self.watching:
            self._loop.call_soon(self._turn)
