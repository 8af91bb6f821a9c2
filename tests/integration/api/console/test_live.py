"""Live pages and the end of the process that serves them."""

import asyncio
from contextlib import suppress

import httpx
import uvicorn

from app.api.server.connection import BoundedConnection
from app.config import Settings
from app.log.interface import MessageLog
from app.main import create_app
from tests.integration.api.console.browser import PATIENCE_S
from tests.integration.api.server import given, listener

LIVE = {"Accept": "text/event-stream"}


async def test_a_stream_ends_when_the_server_stops(
    settings: Settings, postgres_url: str, log: MessageLog
) -> None:
    app = create_app(settings, database_url=postgres_url, log=given(log))
    # Without a limit: a request that does not end by itself would keep the server for ever.
    config = uvicorn.Config(app, http=BoundedConnection, ws="none", log_config=None)
    server = uvicorn.Server(config)
    with listener() as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/console/"
        async with (
            asyncio.timeout(PATIENCE_S),
            httpx.AsyncClient(timeout=PATIENCE_S) as http,
            asyncio.TaskGroup() as tasks,
        ):
            serves = tasks.create_task(server.serve(sockets=[listening]))
            async with http.stream("GET", url, headers=LIVE) as stream:
                lines = stream.aiter_lines()
                assert await anext(lines) == "retry: 3000"
                server.should_exit = True
                with suppress(httpx.RemoteProtocolError):  # it ends in the middle
                    async for _ in lines:
                        pass
                await serves
