"""Subscribers that misbehave: a server of raw sockets, and an act for each kind of misbehaviour."""

import asyncio
import re
import socket
import ssl
import struct
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Final, Self

OK: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
MEGABYTE: Final = 1 << 20

_CONTENT_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
_LINGER_NOT: Final = struct.pack("ii", 1, 0)


class Visit:
    """One connection to the server, as the server sees it."""

    def __init__(self, reader: StreamReader, writer: StreamWriter) -> None:
        self.requests: list[bytes] = []
        self.sent = 0
        self.writer = writer
        self._reader = reader

    async def request(self) -> bool:
        """Wait for a whole request.

        Return False if the client has closed the connection instead.
        """
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
            length = _CONTENT_LENGTH.search(head)
            body = await self._reader.readexactly(int(length[1])) if length else b""
        except asyncio.IncompleteReadError:
            return False
        self.requests.append(head + body)
        return True

    async def say(self, part: bytes) -> None:
        """Write `part`, and wait until the client reads fast enough.

        Raises:
            ConnectionError: The client has closed the connection.
        """
        self.writer.write(part)
        await self.writer.drain()
        self.sent += len(part)

    async def receive(self) -> bytes:
        """Return the next received bytes; empty if the client has closed the connection."""
        return await self._reader.read(64 << 10)

    async def until_closed(self) -> None:
        """Wait until the client closes the connection."""
        await self._reader.read()


# What the server does after a request. When the function returns, the connection is closed.
Act = Callable[[Visit], Awaitable[None]]


def says(*parts: bytes, close: bool = False) -> Act:
    """Return an act that sends these parts as the answer.

    Then the act closes the connection, or waits until the client closes it.
    """

    async def act(visit: Visit) -> None:
        for part in parts:
            await visit.say(part)
        if not close:
            await visit.until_closed()

    return act


def keeps_alive(answer: bytes = OK) -> Act:
    """Return an act that sends this answer to each request on the connection."""

    async def act(visit: Visit) -> None:
        await visit.say(answer)
        while await visit.request():
            await visit.say(answer)

    return act


def drips(answer: bytes, *, interval_s: float) -> Act:
    """Return an act that sends `answer` one byte at a time."""

    async def act(visit: Visit) -> None:
        for byte in answer:
            await visit.say(bytes((byte,)))
            await asyncio.sleep(interval_s)

    return act


def repeats(head: bytes, part: bytes) -> Act:
    """Return an act that sends `head`, and then `part` again and again without end."""

    async def act(visit: Visit) -> None:
        await visit.say(head)
        while True:
            await visit.say(part)
            # Let other tasks run, even if the client reads very fast.
            await asyncio.sleep(0)

    return act


def floods(size: int) -> Act:
    """Return an act that sends an answer with a body of `size` bytes."""

    async def act(visit: Visit) -> None:
        await visit.say(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        part = b"x" * (64 << 10)
        for _ in range(0, size, len(part)):
            await visit.say(part)

    return act


async def hangs(visit: Visit) -> None:
    """Send nothing until the client closes the connection."""
    await visit.until_closed()


async def resets(visit: Visit) -> None:
    """Reset the connection instead of answering the request."""
    sock = visit.writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
    visit.writer.transport.abort()


class Hostile:
    """A server that reads a whole request, and then acts: `async with Hostile(act) as hostile`.

    With `reading=False` the server acts when a connection is accepted, before any request.
    """

    def __init__(
        self, act: Act, *, reading: bool = True, tls: ssl.SSLContext | None = None
    ) -> None:
        self._act = act
        self._tls = tls
        self._reading = reading
        self._server: asyncio.Server | None = None
        self._visits: list[Visit] = []
        self._open: set[Visit] = set()
        self._changed = asyncio.Condition()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._server is not None:
            self._server.close()
        for visit in tuple(self._open):
            visit.writer.transport.abort()
        await self.left()

    @property
    def url(self) -> str:
        """The URL of the server."""
        if self._server is None:
            message = "the server has not been started"
            raise RuntimeError(message)
        scheme = "https" if self._tls else "http"
        return f"{scheme}://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/hook"

    @property
    def requests(self) -> list[bytes]:
        """All whole requests that were received, each with head and body."""
        return [request for visit in self._visits for request in visit.requests]

    @property
    def connections_total(self) -> int:
        """The number of connections since the start, open and closed ones."""
        return len(self._visits)

    @property
    def requests_per_connection(self) -> list[int]:
        """The number of whole requests on each connection, in the order of the connections."""
        return [len(visit.requests) for visit in self._visits]

    @property
    def resumed(self) -> list[bool]:
        """For each TLS connection in order, whether it resumed an earlier TLS session."""
        made = [visit.writer.get_extra_info("ssl_object") for visit in self._visits]
        return [each.session_reused for each in made]

    @property
    def sent_max(self) -> int:
        """The largest number of bytes that were sent on one connection."""
        return max((visit.sent for visit in self._visits), default=0)

    async def left(self, timeout_s: float = 5.0) -> None:
        """Wait until every connection is closed, by the client or by the server."""
        async with asyncio.timeout(timeout_s), self._changed:
            await self._changed.wait_for(lambda: not self._open)

    async def visited(self, count: int, timeout_s: float = 5.0) -> None:
        """Wait until there have been at least `count` connections."""
        async with asyncio.timeout(timeout_s), self._changed:
            await self._changed.wait_for(lambda: len(self._visits) >= count)

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        visit = Visit(reader, writer)
        self._visits.append(visit)
        self._open.add(visit)
        await self._tell()
        # uvloop raises RuntimeError if the client has reset the connection meanwhile.
        with suppress(ConnectionError, RuntimeError):
            if not self._reading or await visit.request():
                await self._act(visit)
        writer.close()
        with suppress(OSError):  # also errors of TLS
            await writer.wait_closed()
        self._open.discard(visit)
        await self._tell()

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()


@asynccontextmanager
async def never_accepting() -> AsyncIterator[str]:
    """Yield the URL of an endpoint that accepts no connection, because its backlog is full."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        try:
            for sock in waiting:
                sock.settimeout(0)
                sock.connect_ex(address)
            yield f"http://127.0.0.1:{address[1]}/hook"
        finally:
            for sock in waiting:
                sock.close()
