"""A local subscriber: listens on a port, and passes each request to a function."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, MutableMapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import uvicorn

from app.cli.errors import CliError
from app.domain.catalogue.topic import MESSAGE_SIZE_MAX

# The maximum size of a received body. The body of a batch may be larger than the largest message.
_BODY_MAX: Final = 4 * MESSAGE_SIZE_MAX
_GRACE_S: Final = 2

_Scope = MutableMapping[str, Any]
_Receive = Callable[[], Any]
_Send = Callable[[MutableMapping[str, Any]], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One received request. Names of headers are in lower case."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def message_id(self) -> str:
        """The id of the message, from a header of the request."""
        return self.headers.get("hermes-message-id", "")

    @property
    def retry_count(self) -> int:
        """The number of attempts before this one."""
        text = self.headers.get("hermes-retry-count", "0")
        return int(text) if text.isdecimal() else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverAnswer:
    """The response to a request."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


Handler = Callable[[Received], ReceiverAnswer]


@asynccontextmanager
async def receiving(handler: Handler, *, host: str, port: int = 0) -> AsyncIterator[str]:
    """Run a server that answers requests with `handler`, until the block ends. Yield its URL.

    If `port` is 0, a free port is used. `handler` runs on the event loop, and must not block.

    Raises:
        CliError: The port is not free.
    """
    listener = _listener(host, port)
    shown = f"[{host}]" if ":" in host else host
    server = _Server(
        uvicorn.Config(
            _application(handler),
            log_config=None,
            log_level="critical",
            access_log=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=_GRACE_S,
        )
    )
    async with asyncio.TaskGroup() as group:
        group.create_task(server.serve(sockets=[listener]))
        try:
            yield f"http://{shown}:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True


class _Server(uvicorn.Server):
    """A uvicorn server that handles no signals, because its command handles them."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle no signals."""
        yield


def _listener(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # The socket is created with an explicit protocol. Otherwise asyncio keeps Nagle's algorithm
        # on, which delays responses by 40 ms.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except OSError as exc:
        raise CliError(f"Cannot receive at {host}:{port}: {exc}") from exc
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        # The socket listens from now on. Requests that arrive before the server is ready wait in
        # the socket's backlog.
        listener.listen(1024)
    except OSError as exc:
        listener.close()
        raise CliError(f"Cannot receive at {host}:{port}: {exc}", hint="Try --port 0.") from exc
    return listener


def _application(handler: Handler) -> Callable[[_Scope, _Receive, _Send], Any]:
    async def application(scope: _Scope, receive: _Receive, send: _Send) -> None:
        body = await _body(receive)
        if body is None:
            return
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in scope["headers"]
        }
        answer = handler(Received(path=scope["path"], headers=headers, body=body))
        await send(
            {
                "type": "http.response.start",
                "status": answer.status,
                "headers": [
                    (b"content-length", b"0"),
                    *((name.encode(), value.encode()) for name, value in answer.headers.items()),
                ],
            }
        )
        await send({"type": "http.response.body"})

    return application


async def _body(receive: _Receive) -> bytes | None:
    """Return the whole body; None if it is incomplete or too large.

    The body is incomplete if the sender closed the connection before the end.
    """
    body = bytearray()
    while True:
        event = await receive()
        if event["type"] == "http.disconnect" or len(body) > _BODY_MAX:
            return None
        body += event.get("body", b"")
        if not event.get("more_body"):
            return bytes(body)
