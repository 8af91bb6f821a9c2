"""The network of tests does what its faults say, and nothing else."""

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from tests.fakes.faulty_network import FAULTS, GOOD, Faults, FaultyNetwork, network_before


async def _echo(reader: StreamReader, writer: StreamWriter) -> None:
    with suppress(OSError):
        while said := await reader.read(100):
            writer.write(said)
    writer.transport.abort()


@asynccontextmanager
async def an_echo() -> AsyncIterator[tuple[FaultyNetwork, StreamReader, StreamWriter]]:
    server = await asyncio.start_server(_echo, "127.0.0.1", 0)
    async with (
        asyncio.timeout(20),
        server,
        network_before(server.sockets[0].getsockname()[1]) as (network, port),
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            yield network, reader, writer
        finally:
            writer.close()
            await network.end()
            with suppress(OSError):
                await writer.wait_closed()


async def test_what_goes_wrong_nowhere_arrives() -> None:
    async with an_echo() as (_, reader, writer):
        writer.write(b"a")
        assert await reader.read(1) == b"a"


@pytest.mark.parametrize("fault", ["black hole", "half-open"])
async def test_what_is_held_arrives_when_it_is_let_go(fault: str) -> None:
    async with an_echo() as (network, reader, writer):
        network.faults = FAULTS[fault]
        writer.write(b"a")
        reading = asyncio.ensure_future(reader.read(1))
        done, _ = await asyncio.wait([reading], timeout=0.3)
        assert not done
        network.faults = GOOD
        assert await reading == b"a"


async def test_a_lost_piece_ends_its_connection() -> None:
    async with an_echo() as (network, reader, writer):
        network.faults = Faults(reset_share=1.0)
        writer.write(b"a")
        # Ended in order or not, as the system has it.
        with suppress(ConnectionResetError):
            assert await reader.read(1) == b""
        assert network.connections == 1
