"""Subscribers as they should not be: a raw socket server with an act for each misbehaviour."""

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
    """One connection to the server, from its side."""

    def __init__(self, reader: StreamReader, writer: StreamWriter) -> None:
        self.requests: list[bytes] = []
        self.sent = 0
        self.writer = writer
        self._reader = reader

    async def request(self) -> bool:
        """Wait for a whole request; False when the other side has closed instead."""
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
            length = _CONTENT_LENGTH.search(head)
            body = await self._reader.readexactly(int(length[1])) if length else b""
        except asyncio.IncompleteReadError:
            return False
        self.requests.append(head + body)
        return True

    async def say(self, part: bytes) -> None:
        """Write `part`, at the pace of the other side; ConnectionError when it is gone."""
        self.writer.write(part)
        await self.writer.drain()
        self.sent += len(part)

    async def receive(self) -> bytes:
        """What has come; empty when the other side has closed."""
        return await self._reader.read(64 << 10)

    async def until_closed(self) -> None:
        """Wait until the other side closes."""
        await self._reader.read()


# What to do once a request has come; when it returns, the connection is closed.
Act = Callable[[Visit], Awaitable[None]]


def says(*parts: bytes, close: bool = False) -> Act:
    """Gives these parts for an answer, then closes, or waits until the other side does."""

    async def act(visit: Visit) -> None:
        for part in parts:
            await visit.say(part)
        if not close:
            await visit.until_closed()

    return act


def keeps_alive(answer: bytes = OK) -> Act:
    """Gives this answer to the request, and to each one that follows on the connection."""

    async def act(visit: Visit) -> None:
        await visit.say(answer)
        while await visit.request():
            await visit.say(answer)

    return act


def drips(answer: bytes, *, interval_s: float) -> Act:
    """Gives `answer` a byte at a time."""

    async def act(visit: Visit) -> None:
        for byte in answer:
            await visit.say(bytes((byte,)))
            await asyncio.sleep(interval_s)

    return act


def repeats(head: bytes, part: bytes) -> Act:
    """Says `head`, then `part` for ever."""

    async def act(visit: Visit) -> None:
        await visit.say(head)
        while True:
            await visit.say(part)
            # Others run too, however fast this is read.
            await asyncio.sleep(0)

    return act


def floods(size: int) -> Act:
    """Gives a good answer, but for its body of `size` bytes."""

    async def act(visit: Visit) -> None:
        await visit.say(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        part = b"x" * (64 << 10)
        for _ in range(0, size, len(part)):
            await visit.say(part)

    return act


async def hangs(visit: Visit) -> None:
    """Says nothing."""
    await visit.until_closed()


async def resets(visit: Visit) -> None:
    """Resets the connection under the request."""
    sock = visit.writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
    visit.writer.transport.abort()


class Hostile:
    """Reads a whole request, then acts: `async with Hostile(act) as hostile`.

    With `reading=False` it acts as soon as a connection is accepted, before any request.
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
        """Its endpoint."""
        if self._server is None:
            message = "the server has not been started"
            raise RuntimeError(message)
        scheme = "https" if self._tls else "http"
        return f"{scheme}://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/hook"

    @property
    def requests(self) -> list[bytes]:
        """Every whole request that has come, head and body."""
        return [request for visit in self._visits for request in visit.requests]

    @property
    def connections_total(self) -> int:
        """Connections there ever were."""
        return len(self._visits)

    @property
    def requests_per_connection(self) -> list[int]:
        """Whole requests that came on each connection, in the order of connecting."""
        return [len(visit.requests) for visit in self._visits]

    @property
    def resumed(self) -> list[bool]:
        """Of each connection by TLS, whether it resumed a session, in the order of connecting."""
        made = [visit.writer.get_extra_info("ssl_object") for visit in self._visits]
        return [each.session_reused for each in made]

    @property
    def sent_max(self) -> int:
        """The most bytes that one connection took."""
        return max((visit.sent for visit in self._visits), default=0)

    async def left(self, timeout_s: float = 5.0) -> None:
        """Wait until every connection is closed, by whomever."""
        async with asyncio.timeout(timeout_s), self._changed:
            await self._changed.wait_for(lambda: not self._open)

    async def visited(self, count: int, timeout_s: float = 5.0) -> None:
        """Wait until there have been that many connections."""
        async with asyncio.timeout(timeout_s), self._changed:
            await self._changed.wait_for(lambda: len(self._visits) >= count)

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        visit = Visit(reader, writer)
        self._visits.append(visit)
        self._open.add(visit)
        await self._tell()
        # RuntimeError: what uvloop says of a connection that the other side has reset meanwhile.
        with suppress(ConnectionError, RuntimeError):
            if not self._reading or await visit.request():
                await self._act(visit)
        writer.close()
        with suppress(OSError):  # of TLS, too
            await writer.wait_closed()
        self._open.discard(visit)
        await self._tell()

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()


@asynccontextmanager
async def never_accepting() -> AsyncIterator[str]:
    """An endpoint that takes up no connection: its backlog is full."""
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
