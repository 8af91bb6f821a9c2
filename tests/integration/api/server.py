"""The API on a real socket, in the test's own event loop."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

import httpx
import uvicorn
from starlette.types import ASGIApp

from angelia_client.requests import verification
from app.api.server.connection import BoundedConnection
from app.composition import OpenLog
from app.config import Settings
from app.log.interface import MessageLog
from app.postgres.urls import DatabaseUrl
from tests.integration.api.documented import check_documented, operations

# The client has closed its connections. The server hears of it after so many turns of the loop.
_TURNS_TO_HEAR_OF_CLOSED_CONNECTIONS: Final = 5


@asynccontextmanager
async def serving(
    app: ASGIApp, *, http: type[BoundedConnection] = BoundedConnection
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of `app`, which is served as in production, on a free port.

    An error that the document lacks fails the test.
    """
    # Once a process: made at the first error, it would hold up the loop for a second.
    operations()
    config = uvicorn.Config(app, http=http, ws="none", log_config=None, timeout_graceful_shutdown=5)
    server = _Server(config)
    with listener() as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(server.serve(sockets=[listening]))
            try:
                # It listens already: a request that comes before the app has started waits.
                async with httpx.AsyncClient(
                    base_url=url,
                    # Long enough for a machine that is busy with other things.
                    timeout=60,
                    verify=verification(url),
                    event_hooks={"response": [check_documented]},
                ) as client:
                    yield client
            finally:
                server.end()


class _Server(uvicorn.Server):
    """uvicorn's server without the pauses that it makes at its end, 0.15 s in a thousand tests."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._ended = asyncio.Event()

    def end(self) -> None:
        """Let `serve` return as soon as running requests have ended."""
        self.should_exit = True
        self._ended.set()

    async def main_loop(self) -> None:
        """Keep the time of the `Date` header until the end, as uvicorn does."""
        ticking = asyncio.create_task(super().main_loop())
        await self._ended.wait()
        ticking.cancel()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the application at once if nobody is connected, or wait as uvicorn does."""
        for _ in range(_TURNS_TO_HEAR_OF_CLOSED_CONNECTIONS):
            await asyncio.sleep(0)
        if self.server_state.connections or self.server_state.tasks:
            await super().shutdown(sockets)
        else:
            for server in self.servers:
                server.close()
            for listening in sockets or []:
                listening.close()
            await self.lifespan.shutdown()


def listener() -> socket.socket:
    """A socket that listens on a free port.

    It names its protocol: else asyncio does not turn off Nagle's algorithm on what it accepts, as
    it does in production, and each answer whose body comes behind its headers waits for 40 ms.
    """
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    return listening


def given(log: MessageLog) -> OpenLog:
    """Opens `log`, which the test keeps."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[MessageLog]:
        yield log

    def open_it(
        settings: Settings, *, database_url: DatabaseUrl
    ) -> AbstractAsyncContextManager[MessageLog]:
        del settings, database_url
        return opened()

    return open_it
