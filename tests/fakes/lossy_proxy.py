"""A proxy in front of a Kafka broker that can lose the broker's answers to produce requests."""

import asyncio
import itertools
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from app.log.kafka.protocol.wire import FRAME_LENGTH, SHORT

PRODUCE: Final = 0


class LossyProxy:
    """Passes everything on. If `loses` returns true, it closes the connection instead of answering.

    Only answers to produce requests are lost. The broker has then stored the records already.
    """

    def __init__(self, broker_port: int) -> None:
        self._broker_port = broker_port
        self.loses: Callable[[], bool] = lambda: False
        self.lost = 0

    def lose(self, count: int, *, every: int = 1) -> None:
        """Lose `count` answers to produce requests: the next one, and then one of every `every`."""
        answers = itertools.count()
        self.loses = lambda: (n := next(answers)) % every == 0 and n < count * every

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Pass the data of one connection on."""
        with suppress(OSError, asyncio.IncompleteReadError):
            there = await asyncio.open_connection("127.0.0.1", self._broker_port)
            try:
                await self._pass_on((reader, writer), there)
            finally:
                there[1].close()
        writer.close()

    async def _pass_on(
        self, here: tuple[StreamReader, StreamWriter], there: tuple[StreamReader, StreamWriter]
    ) -> None:
        kinds: asyncio.Queue[int] = asyncio.Queue()
        asking = asyncio.ensure_future(_pass_requests(here[0], there[1], kinds))
        try:
            while True:
                answer = await _frame(there[0])
                if await kinds.get() == PRODUCE and self.loses():
                    self.lost += 1
                    return
                here[1].write(answer)
        finally:
            asking.cancel()
            with suppress(asyncio.CancelledError, OSError, asyncio.IncompleteReadError):
                await asking


async def _pass_requests(
    reader: StreamReader, writer: StreamWriter, kinds: "asyncio.Queue[int]"
) -> None:
    try:
        while True:
            request = await _frame(reader)
            kinds.put_nowait(*SHORT.unpack_from(request, FRAME_LENGTH.size))
            writer.write(request)
    finally:
        writer.close()


async def _frame(reader: StreamReader) -> bytes:
    head = await reader.readexactly(FRAME_LENGTH.size)
    return head + await reader.readexactly(*FRAME_LENGTH.unpack(head))


@asynccontextmanager
async def lossy_proxy(broker_port: int, port: int) -> AsyncIterator[LossyProxy]:
    """Run a proxy on `port` in front of the broker at `broker_port`."""
    proxy = LossyProxy(broker_port)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", port)
    try:
        yield proxy
    finally:
        server.close()
