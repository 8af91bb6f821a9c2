"""`/metrics` and `/status` of a worker, on a separate port."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import structlog
import uvicorn

from app.accepted import prefers_json, prefers_text
from app.metrics.exposition import CONTENT_TYPE, exposition
from workers.telemetry.observer import ObservedWorker
from workers.telemetry.status_address import Address, listening

# The maximum number of connections. Only a few metric collectors and health checks connect. Further
# connections get 503.
CONNECTIONS_MAX: Final = 32
KEEP_ALIVE_S: Final = 75
SHUTDOWN_S: Final = 1

# The types of an ASGI application's arguments.
Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

_TEXT: Final = "text/plain; charset=utf-8"
_JSON: Final = "application/json"

_log = structlog.get_logger()


class _Answer(NamedTuple):
    status: HTTPStatus
    content_type: str
    body: bytes


_UP: Final = _Answer(HTTPStatus.OK, _TEXT, b"UP")


class StatusPage:
    """The page as an ASGI application.

    The page responds even before the worker runs, and shows whether the worker is ready. No
    authentication is needed, because the page shows names and counts, and no messages.
    """

    def __init__(self) -> None:
        self._observed: ObservedWorker | None = None

    async def watch(self, observed: ObservedWorker) -> None:
        """Show the metrics and the status of this worker on the page, until cancelled."""
        self._observed = observed
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._observed = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        del receive  # not used: requests for the page have no body
        answer = await self._answer(scope)
        headers = [
            (b"content-type", answer.content_type.encode()),
            (b"content-length", b"%d" % len(answer.body)),
        ]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})

    async def _answer(self, scope: Scope) -> _Answer:
        if scope["method"] not in {"GET", "HEAD"}:
            return _Answer(HTTPStatus.METHOD_NOT_ALLOWED, _TEXT, b"Only GET")
        match scope["path"]:
            case "/metrics" | "/status/prometheus":
                return await self._metrics()
            case "/status/ping":
                return _UP
            case "/status/health":
                return self._health() if prefers_json(_accept(scope)) else _UP
            case "/status/ready":
                return await self._ready(as_text=prefers_text(_accept(scope)))
            case _:
                return _Answer(HTTPStatus.NOT_FOUND, _TEXT, b"Not Found")

    async def _metrics(self) -> _Answer:
        if self._observed is None:
            return _Answer(HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, b"Starting, or stopping")
        body = await exposition(await self._observed.read())
        return _Answer(HTTPStatus.OK, CONTENT_TYPE, body)

    def _health(self) -> _Answer:
        throttled = [] if self._observed is None else list(self._observed.throttled())
        shown = {"status": "UP", "throttled": throttled}
        return _Answer(HTTPStatus.OK, _JSON, json.dumps(shown).encode())

    async def _ready(self, *, as_text: bool) -> _Answer:
        waits: Mapping[str, str] = {"worker": "it starts, or stops"}
        if self._observed is not None:
            waits = await self._observed.waits()
        left = {name: why for name, why in waits.items() if why}
        shown: dict[str, Any] = {
            "status": "NOT_READY" if left else "READY",
            "parts": {name: not why for name, why in waits.items()},
            "waitingFor": left,
        }
        status = HTTPStatus.SERVICE_UNAVAILABLE if left else HTTPStatus.OK
        if as_text:
            return _Answer(status, _TEXT, shown["status"].encode())
        return _Answer(status, _JSON, json.dumps(shown).encode())


def _accept(scope: Scope) -> str:
    given = (value for name, value in scope["headers"] if name == b"accept")
    return b",".join(given).decode("latin-1")


class _Server(uvicorn.Server):
    """A uvicorn server that does not handle signals, because the worker handles them."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def served(page: StatusPage, address: Address) -> AsyncIterator[Address]:
    """Serve the page at `address` inside the block.

    Yield the address. If its port was 0, it has the port that the system chose.

    Raises:
        OSError: The port is in use.
    """
    config = uvicorn.Config(
        page,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=SHUTDOWN_S,
    )
    with listening(address) as opened:
        found = Address(*opened.getsockname()[:2])
        _log.info("status_served", host=found.host, port=found.port)
        server = _Server(config)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(server.serve(sockets=[opened]))
            try:
                yield found
            finally:
                server.should_exit = True
