"""A network with faults: it delays data, breaks connections, or passes nothing in a direction."""

import asyncio
import random
import time
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_CHUNK: Final = 64 << 10
# How often it is checked whether held data may be passed on, in seconds.
_AGAIN_S: Final = 0.05

Connect = Callable[[], Awaitable[tuple[StreamReader, StreamWriter]]]


@dataclass(frozen=True, slots=True)
class Faults:
    """The faults of a network; by default there are none.

    Attributes:
        delay_s: Each part of the data is delayed by one to two times this many seconds.
        reset_share: The fraction of the parts of data that break their connection.
        requests_held: Whether no data reaches the server. The data arrives when this is over, as
            with TCP.
        answers_held: The same for data to the client.
    """

    delay_s: float = 0.0
    reset_share: float = 0.0
    requests_held: bool = False
    answers_held: bool = False


GOOD: Final = Faults()
FAULTS: Final = {
    "delay": Faults(delay_s=0.2),
    "loss": Faults(reset_share=0.02),
    "black hole": Faults(requests_held=True, answers_held=True),
    "half-open": Faults(answers_held=True),
}


@dataclass(slots=True)
class FaultyNetwork:
    """All connections through the network to one server."""

    connect: Connect
    faults: Faults = GOOD
    dice: random.Random = field(default_factory=lambda: random.Random(1))
    connections: int = 0
    _serving: set["asyncio.Task[None]"] = field(default_factory=set)

    async def end(self) -> None:
        """Break all connections."""
        serving = tuple(self._serving)
        for each in serving:
            each.cancel()
        await asyncio.gather(*serving, return_exceptions=True)

    def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Pass the data of one new connection on, until one side closes it."""
        self.connections += 1
        serving = asyncio.ensure_future(self._both_ways(reader, writer))
        self._serving.add(serving)
        serving.add_done_callback(self._serving.discard)
        # Not at the end of the task's own code: a task that is cancelled at once does not run.
        serving.add_done_callback(lambda _: writer.transport.abort())

    async def _both_ways(self, reader: StreamReader, writer: StreamWriter) -> None:
        with suppress(OSError):
            there = await self.connect()
            ways = (
                asyncio.ensure_future(self._pass_on(reader, there[1], "requests_held")),
                asyncio.ensure_future(self._pass_on(there[0], writer, "answers_held")),
            )
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
                there[1].transport.abort()

    async def _pass_on(self, reader: StreamReader, writer: StreamWriter, held: str) -> None:
        while part := await reader.read(_CHUNK):
            if self.dice.random() < self.faults.reset_share:
                return
            if self.faults.delay_s:
                late_s = self.faults.delay_s * (1 + self.dice.random())
                await _until(time.monotonic() + late_s)
            while getattr(self.faults, held):
                await _until(time.monotonic() + _AGAIN_S)
            writer.write(part)
            await writer.drain()


async def _until(moment: float) -> None:
    """Return at this time of the monotonic clock: a network takes real time."""
    over = asyncio.Event()
    timer = asyncio.get_running_loop().call_later(moment - time.monotonic(), over.set)
    try:
        await over.wait()
    finally:
        timer.cancel()


@asynccontextmanager
async def network_before(port: int, *, at: int = 0) -> AsyncIterator[tuple[FaultyNetwork, int]]:
    """Run a network in front of a local port; yield the network and the port for clients.

    Clients connect to the port `at`, or to any free one if it is 0.
    """
    network = FaultyNetwork(lambda: asyncio.open_connection("127.0.0.1", port))
    server = await asyncio.start_server(network.serve, "127.0.0.1", at)
    try:
        yield network, server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await network.end()


@asynccontextmanager
async def network_before_socket(path: Path, *, at: Path) -> AsyncIterator[FaultyNetwork]:
    """Run a network in front of the Unix socket `path`, and yield it. Clients connect to `at`."""
    network = FaultyNetwork(lambda: asyncio.open_unix_connection(path))
    server = await asyncio.start_unix_server(network.serve, at)
    try:
        yield network
    finally:
        server.close()
        await network.end()
