"""The API process: its application, and its server."""

import gc
import signal
import sys
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Final, NoReturn, cast

import structlog
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from app import native
from app.api.server.connection import BoundedConnection
from app.api.server.open_connections import OpenConnections, connections_allowed
from app.composition import OpenLog, Part, Parts, running
from app.config import Settings
from app.freed_memory import return_freed_memory
from app.log.factory import open_log
from app.postgres.urls import DatabaseUrl
from app.services.access.first_key import Announce
from app.storage.embedded.configured import database_url_or_exit
from app.telemetry import configure_logging

_log = structlog.get_logger(__name__)

# How long running requests may take when the process is stopped, in seconds.
SHUTDOWN_S: Final = 10
# The thresholds of the garbage collector: it runs after so many new objects, and checks older
# objects after so many runs. With 20 instead of 5, closed connections and the like took 20 MB until
# they were freed, half an hour later.
COLLECT_AFTER: Final = (20_000, 5, 20)
# How long an idle connection is kept, in seconds. Usual load balancers keep a connection for less
# time, so they close it first. Then they send no request on a connection that is closed already.
KEEP_ALIVE_S: Final = 75


class Application:
    """The API as an ASGI application. At its start and end, it opens and closes all its parts."""

    def __init__(self, parts: AbstractAsyncContextManager[ASGIApp]) -> None:
        self._parts = parts
        self._serving: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or open and close the parts of the application."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif self._serving is None:
            message = "The application is not started: its server must speak the lifespan protocol"
            raise RuntimeError(message)
        else:
            await self._serving(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            async with self._parts as self._serving:
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except Exception as error:  # noqa: BLE001 - reported to the server, which ends the process
            stage = "shutdown" if self._serving else "startup"
            _log.exception("api_broke", stage=stage)
            await send({"type": f"lifespan.{stage}.failed", "message": type(error).__name__})
        else:
            await send({"type": "lifespan.shutdown.complete"})


def _announce(token: str) -> None:
    """Print the token for the operator, and do not log it, because logs are stored and searched."""
    sys.stderr.write(
        f"\nThe first API key, an admin's, shown this once:\n\n  {token}\n\n"
        "Send it as `Authorization: Bearer …`; commands take it from ANGELIA_API_KEY.\n\n"
    )
    sys.stderr.flush()


def create_app(
    settings: Settings,
    *,
    database_url: DatabaseUrl,
    only: Part = "all",
    log: OpenLog = open_log,
    announce: Announce = _announce,
) -> Application:
    """Return the API over the migrated database at `database_url` and the log of `settings`.

    The API starts and responds even if database or log cannot be reached, and recovers when they
    can. `announce` is called with a new API key if callers need keys and no key exists yet.
    """
    parts = Parts(only=only, open_a_log=log, announce=announce)
    return Application(running(settings, database_url, parts))


def serve(settings: Settings) -> None:
    """Serve the API until SIGTERM or SIGINT. Then running requests may take SHUTDOWN_S seconds."""
    configure_logging(settings.log_level)
    return_freed_memory()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    with database_url_or_exit(settings) as url:
        _log.info("api_starting", compiled=native.is_compiled())
        _spare_the_collector()
        among = OpenConnections(connections_allowed(settings.connections_max))
        uvicorn.run(
            create_app(settings, database_url=url, only=settings.only),
            host=settings.host,
            port=settings.port,
            loop="uvloop",
            http=cast("type[BoundedConnection]", partial(BoundedConnection, among=among)),
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=SHUTDOWN_S,
        )


def _spare_the_collector() -> None:
    """Let the garbage collector run less often, and skip the objects that are loaded at the start.

    Nearly all objects of a request are freed without the collector. With its usual settings, the
    collector would take half of the time of a batch of messages.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
    gc.enable()


def _end(_number: int, _frame: object) -> NoReturn:
    # Exit by an exception, so that the open parts are closed. uvicorn raises the signal again after
    # it has stopped. Without this handler, the signal would then end the process immediately.
    sys.exit(0)
