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

# The number of turns of the event loop after which the server knows that the client has closed its
# connections.
_TURNS_TO_HEAR_OF_CLOSED_CONNECTIONS: Final = 5
# uvicorn would close a connection after 5 s without a request. On a busy machine a test may take
# longer between two requests, and the second one would fail.
_KEEP_ALIVE_S: Final = 600


@asynccontextmanager
async def serving(
    app: ASGIApp, *, http: type[BoundedConnection] = BoundedConnection
) -> AsyncIterator[httpx.AsyncClient]:
    """Serve `app` as in production, on a free port, and yield a client of it.

    If the app answers with an error that the API's document lacks, the test fails.
    """
    # Read the API's document now, once for each process. If this were done at the first error, it
    # would block the event loop for a second.
    operations()
    config = uvicorn.Config(
        app,
        http=http,
        ws="none",
        log_config=None,
        timeout_graceful_shutdown=5,
        timeout_keep_alive=_KEEP_ALIVE_S,
    )
    server = _Server(config)
    with listener() as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(server.serve(sockets=[listening]))
            try:
                # The socket already listens, so a request that comes before the app has started
                # waits.
                async with httpx.AsyncClient(
                    base_url=url,
                    # Use a long time limit, because the machine may be busy with other work.
                    timeout=60,
                    verify=verification(url),
                    event_hooks={"response": [check_documented]},
                ) as client:
                    yield client
            finally:
                server.end()


class _Server(uvicorn.Server):
    """uvicorn's server without the pauses that it makes when it stops.

    The pauses take 0.15 s in each test that uses the server, and about 1,000 tests use it.
    """

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
        """Close the application immediately if no client is connected.

        Otherwise wait as uvicorn does.
        """
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
    """Return a socket that listens on a free port.

    The socket names its protocol, as in production. Otherwise asyncio would leave Nagle's algorithm
    on for accepted connections, and each answer whose body comes after its headers would be delayed
    by 40 ms.
    """
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    return listening


def given(log: MessageLog) -> OpenLog:
    """Return a function that opens `log`. It does not close the log, which belongs to the test."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[MessageLog]:
        yield log

    def open_it(
        settings: Settings, *, database_url: DatabaseUrl
    ) -> AbstractAsyncContextManager[MessageLog]:
        del settings, database_url
        return opened()

    return open_it
