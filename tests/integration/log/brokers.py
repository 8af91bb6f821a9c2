"""Servers that behave as brokers may, and what they are asked and say."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from app.domain.kafka_security import IN_THE_CLEAR
from app.log.kafka.credentials import KafkaCredentials
from app.log.kafka.link import Address
from app.log.kafka.protocol.wire import FRAME_LENGTH

PLAIN = KafkaCredentials(IN_THE_CLEAR)

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(serve: Serve) -> AsyncIterator[Address]:
    """Where a server serves each of its connections so, until the other side is gone."""
    server = await asyncio.start_server(_until_gone(serve), "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()
    finally:
        server.close()


def _until_gone(serve: Serve) -> Serve:
    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
            await reader.read()
        finally:
            writer.close()

    return served


def an_answer(correlation: int, *, throttle_ms: int = 0) -> bytes:
    """That says nothing of any topic."""
    body = b"".join(map(FRAME_LENGTH.pack, (correlation, 0, throttle_ms)))
    return FRAME_LENGTH.pack(len(body)) + body


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer each request, which is its correlation id, byte by byte."""
    while request := await reader.read(FRAME_LENGTH.size):
        for byte in an_answer(*FRAME_LENGTH.unpack(request)):
            writer.write(bytes([byte]))
            await writer.drain()


async def never(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    """Read, and say nothing."""
    await reader.read()


async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Close as soon as something comes."""
    await reader.read(1)
    writer.close()


def saying(said: bytes) -> Serve:
    """Say that, whatever comes."""

    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(said)

    return say


# What makes no sense to who asked one thing.
NONSENSE = [an_answer(77), FRAME_LENGTH.pack(-1), FRAME_LENGTH.pack(0), b"HTTP/1.1 400 Bad"]
