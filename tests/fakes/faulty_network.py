"""A way through a network that goes wrong: late, cut, without a word, or deaf on one side."""

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
# How often what is held up is looked at again.
_AGAIN_S: Final = 0.05

Connect = Callable[[], Awaitable[tuple[StreamReader, StreamWriter]]]


@dataclass(frozen=True, slots=True)
class Faults:
    """What goes wrong now; without an argument nothing does.

    `delay_s` is added to each way, and up to as much again. `reset_share` of the pieces of data end
    their connection. Where requests or answers are held, connections are taken, and nothing of that
    direction arrives until it is let go; what was held arrives then, as TCP has it.
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
    """All connections to one place."""

    connect: Connect
    faults: Faults = GOOD
    dice: random.Random = field(default_factory=lambda: random.Random(1))
    connections: int = 0
    _serving: set["asyncio.Task[None]"] = field(default_factory=set)

    async def end(self) -> None:
        """Cut all connections."""
        serving = tuple(self._serving)
        for each in serving:
            each.cancel()
        await asyncio.gather(*serving, return_exceptions=True)

    def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Serve one connection, until either side ends it."""
        serving = asyncio.ensure_future(self._serve(reader, writer))
        self._serving.add(serving)
        serving.add_done_callback(self._serving.discard)

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        self.connections += 1
        try:
            await self._both_ways(reader, writer)
        finally:
            writer.transport.abort()

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
    """Let time pass: that is what a network does."""
    over = asyncio.get_running_loop().create_future()
    timer = asyncio.get_running_loop().call_later(moment - time.monotonic(), over.set_result, None)
    try:
        await over
    finally:
        timer.cancel()


@asynccontextmanager
async def network_before(port: int, *, at: int = 0) -> AsyncIterator[tuple[FaultyNetwork, int]]:
    """The network before a port of this machine, and the port where it is entered."""
    network = FaultyNetwork(lambda: asyncio.open_connection("127.0.0.1", port))
    server = await asyncio.start_server(network.serve, "127.0.0.1", at)
    async with server:
        try:
            yield network, server.sockets[0].getsockname()[1]
        finally:
            await network.end()


@asynccontextmanager
async def network_before_socket(path: Path, *, at: Path) -> AsyncIterator[FaultyNetwork]:
    """The network before a socket of this machine, entered at another one."""
    network = FaultyNetwork(lambda: asyncio.open_unix_connection(path))
    server = await asyncio.start_unix_server(network.serve, at)
    async with server:
        try:
            yield network
        finally:
            await network.end()
