"""An HTTP proxy for tests: it opens tunnels, or gives any other answer to CONNECT."""

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

ESTABLISHED: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"
# A function that returns the answer for a target. An answer that ends with ESTABLISHED opens a
# tunnel.
Answer = Callable[[str], bytes | None]


def tunnels(_target: str) -> bytes | None:
    """Return the answer that opens a tunnel, for every target."""
    return ESTABLISHED


class Proxy:
    """A proxy whose answer to each CONNECT is made by `answer`, given the target.

    Use it as `async with Proxy(answer) as proxy`. After an answer that opens no tunnel, the proxy
    closes the connection. If `answer` returns None, the proxy sends nothing, and keeps the
    connection open.
    """

    def __init__(self, answer: Answer = tunnels) -> None:
        self.answer = answer
        self.heads: list[str] = []
        self._server: asyncio.Server | None = None
        self._open: set[StreamWriter] = set()
        self._left = asyncio.Condition()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._server is not None:
            self._server.close()
        for writer in tuple(self._open):
            writer.transport.abort()
        await self.left()

    @property
    def port(self) -> int:
        """The port of the proxy."""
        if self._server is None:
            message = "the proxy has not been started"
            raise RuntimeError(message)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @property
    def targets(self) -> list[str]:
        """The targets of all CONNECT requests so far."""
        return [head.split()[1] for head in self.heads]

    async def left(self, timeout_s: float = 5.0) -> None:
        """Wait until every connection to the proxy is closed."""
        async with asyncio.timeout(timeout_s), self._left:
            await self._left.wait_for(lambda: not self._open)

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        self._open.add(writer)
        with suppress(OSError, asyncio.IncompleteReadError, RuntimeError):
            await self._answered(reader, writer)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        async with self._left:
            self._open.discard(writer)
            self._left.notify_all()

    async def _answered(self, reader: StreamReader, writer: StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.heads.append(head)
        target = head.split()[1]
        answer = self.answer(target)
        if answer is None:
            await reader.read()
            return
        if not answer.endswith(ESTABLISHED):
            writer.write(answer)
            await writer.drain()
            return
        host, _, port = target.rpartition(":")
        there = await asyncio.open_connection(host.strip("[]"), int(port))
        writer.write(answer)
        await asyncio.gather(_pass_on(reader, there[1]), _pass_on(there[0], writer))


async def _pass_on(reader: StreamReader, writer: StreamWriter) -> None:
    with suppress(OSError):
        while part := await reader.read(64 << 10):
            writer.write(part)
            await writer.drain()
    writer.close()
