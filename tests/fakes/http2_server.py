"""Servers that speak HTTP/2: a real one, and one that follows a script."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from socket import create_server

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ConnectionTerminated, DataReceived, Event, RequestReceived, StreamEnded
from hypercorn.asyncio import serve
from hypercorn.config import Config

from tests.fakes.hostile import Act, Visit

# The type of an ASGI application.
App = Callable[..., Awaitable[None]]


@asynccontextmanager
async def hypercorn(app: App, chain: Path, key: Path, *, alpn: str = "h2") -> AsyncIterator[str]:
    """Serve `app` with the server Hypercorn, and yield its URL."""
    listener = create_server(("127.0.0.1", 0))
    config = Config()
    port = listener.getsockname()[1]
    config.bind = [f"fd://{listener.detach()}"]
    config.certfile, config.keyfile = str(chain), str(key)
    config.alpn_protocols = [alpn]
    config.errorlog = config.accesslog = None
    stopping = asyncio.Event()

    async def until_stopped() -> None:
        await stopping.wait()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(serve(app, config, shutdown_trigger=until_stopped))
        try:
            yield f"https://127.0.0.1:{port}/"
        finally:
            stopping.set()


class Scripted:
    """One HTTP/2 connection, from the server's side.

    Attributes:
        http2: The state of the protocol.
        visit: The connection below HTTP/2.
        requests: The bodies of the complete requests, by HTTP/2 stream.
        goodbye: The error code with which the client has ended the connection (GOAWAY).
    """

    def __init__(self, visit: Visit) -> None:
        self.http2 = H2Connection(H2Configuration(client_side=False))
        self.visit = visit
        self.requests: dict[int, bytes] = {}
        self.goodbye: int | None = None
        self._bodies: dict[int, bytes] = {}
        self._complete: asyncio.Queue[int] = asyncio.Queue()

    async def next_request(self) -> int | None:
        """Return the HTTP/2 stream of the next complete request.

        The result is None if the client has closed the connection.
        """
        while self._complete.empty():
            if not await self.hear():
                return None
        return self._complete.get_nowait()

    async def hear(self) -> bool:
        """Read some bytes; return False if the client has closed the connection."""
        data = await self.visit.receive()
        for event in self.http2.receive_data(data):
            self._take(event)
        await self.flush()
        return bool(data)

    def answer(self, stream: int, status: int = 200, body: bytes = b"ok") -> None:
        """Prepare an answer to the request on this HTTP/2 stream. The method `flush` sends it."""
        self.http2.send_headers(stream, [(":status", str(status)), ("x-stream", str(stream))])
        self.http2.send_data(stream, body, end_stream=True)

    async def flush(self) -> None:
        """Send everything that was prepared."""
        await self.visit.say(self.http2.data_to_send())

    def _take(self, event: Event) -> None:
        match event:
            case RequestReceived():
                self._bodies[event.stream_id or 0] = b""
            case DataReceived():
                self._bodies[event.stream_id] += event.data
                self.http2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case StreamEnded():
                stream = event.stream_id or 0
                self.requests[stream] = self._bodies.pop(stream)
                self.visit.requests.append(self.requests[stream])
                self._complete.put_nowait(stream)
            case ConnectionTerminated():
                self.goodbye = event.error_code
            case _:
                pass


def scripted(script: Callable[[Scripted], Awaitable[None]]) -> Act:
    """Return an act for `Hostile(…, reading=False)` that speaks HTTP/2 and runs `script`."""

    async def act(visit: Visit) -> None:
        server = Scripted(visit)
        server.http2.initiate_connection()
        await server.flush()
        await script(server)

    return act


async def answering(server: Scripted) -> None:
    """Answer each request with 200; a script for `scripted`."""
    while stream := await server.next_request():
        server.answer(stream)
        await server.flush()


def frame(kind: int, payload: bytes = b"", *, stream: int = 0, flags: int = 0) -> bytes:
    """Return an HTTP/2 frame as bytes (RFC 9113, section 4.1)."""
    head = len(payload).to_bytes(3, "big") + bytes((kind, flags))
    return head + stream.to_bytes(4, "big") + payload


# Frames that need no action, about the first request of a connection or about no request.
IDLE_FRAMES = {
    "pings": frame(6, bytes(8)),
    "answers to pings": frame(6, bytes(8), flags=1),
    "settings": frame(4),
    "answers to settings": frame(4, flags=1),
    "empty parts": frame(0, stream=1),
    "padded parts": frame(0, b"\x00", stream=1, flags=8),
    "parts of a byte": frame(0, b"x", stream=1),
    "windows": frame(8, b"\x00\x00\x00\x01"),
    "priorities": frame(2, b"\x00\x00\x00\x03\x10", stream=1),
    "unknown frames": frame(0x55),
    "unknown frames of a request": frame(0x55, stream=1),
}


def flooding(part: bytes, size: int) -> Callable[[Scripted], Awaitable[None]]:
    """Return a script that begins an answer, and then sends `part` again and again.

    It sends `size` bytes in all.
    """

    async def script(server: Scripted) -> None:
        stream = await server.next_request()
        server.http2.send_headers(stream or 0, [(":status", "200")])
        await server.flush()
        await server.visit.say(part * (size // len(part)))
        while await server.hear():
            pass

    return script
