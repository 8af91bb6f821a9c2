"""The connection of appends to one broker, against servers that behave as brokers may."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from app.domain.errors import LogUnavailableError
from app.log.kafka.broker import IN_FLIGHT_MAX, Broker
from app.log.kafka.lines import Batch, Topic
from app.log.kafka.produce_wire import FRAME_LENGTH, Answers

SOON = timedelta(seconds=0.2)
PATIENCE_S = 10.0
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Heard:
    """An owner that keeps what it is told."""

    def __init__(self) -> None:
        self.openings = 0
        self.answers: list[Answers] = []
        self.errors: list[LogUnavailableError] = []
        self.unreached: list[int] = []
        self._told = asyncio.Event()

    def opened(self) -> None:
        self.openings += 1
        self._told.set()

    def answered(self, batches: Sequence[Batch], answers: Answers) -> None:
        assert batches
        self.answers.append(answers)
        self._told.set()

    def lost(self, batches: Sequence[Batch], error: LogUnavailableError) -> None:
        if batches:
            self.errors.append(error)
        self._told.set()

    def unreachable(self, node: int) -> None:
        self.unreached.append(node)
        self._told.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not holds():
                self._told.clear()
                await self._told.wait()


@asynccontextmanager
async def connected(serve: Serve) -> AsyncIterator[tuple[Broker, Heard]]:
    heard = Heard()
    server = await asyncio.start_server(_until_gone(serve), "127.0.0.1", 0)
    async with asyncio.TaskGroup() as tasks:
        broker = Broker(3, heard, tasks=tasks, answer_timeout=SOON)
        address: tuple[str, int] = server.sockets[0].getsockname()
        broker.open(lambda: address)
        await heard.until(lambda: bool(heard.openings))
        try:
            yield broker, heard
        finally:
            broker.close()
            server.close()


def _until_gone(serve: Serve) -> Serve:
    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
            await reader.read()
        finally:
            writer.close()

    return served


def a_batch() -> list[Batch]:
    return [Batch(Topic("t"), 0, 3, [])]


def send(broker: Broker) -> None:
    broker.send(FRAME_LENGTH.pack, a_batch())


def an_answer(correlation: int) -> bytes:
    """That says nothing of any topic."""
    body = FRAME_LENGTH.pack(correlation) + FRAME_LENGTH.pack(0) + FRAME_LENGTH.pack(0)
    return FRAME_LENGTH.pack(len(body)) + body


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer each request, byte by byte."""
    while request := await reader.read(FRAME_LENGTH.size):
        for byte in an_answer(*FRAME_LENGTH.unpack(request)):
            writer.write(bytes([byte]))
            await writer.drain()


async def never(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.close()


async def test_requests_are_answered_in_their_order_however_answers_come() -> None:
    async with connected(answer) as (broker, heard):
        for _ in range(IN_FLIGHT_MAX):
            assert broker.ready
            send(broker)
        assert not broker.ready
        await heard.until(lambda: len(heard.answers) == IN_FLIGHT_MAX)
        assert broker.ready


async def test_a_place_that_is_kept_is_not_given_to_another() -> None:
    async with connected(answer) as (broker, _):
        for _ in range(IN_FLIGHT_MAX):
            broker.hold()
        assert not broker.ready
        broker.release()
        assert broker.ready


@pytest.mark.parametrize("serve", [never, hang_up])
async def test_what_is_in_flight_fails_with_its_connection_and_the_next_one_is_new(
    serve: Serve,
) -> None:
    async with connected(serve) as (broker, heard):
        send(broker)
        await heard.until(lambda: bool(heard.errors))
        assert not broker.is_open
        assert len(heard.errors) == 1


@pytest.mark.parametrize("said", [an_answer(77), FRAME_LENGTH.pack(-1), b"HTTP/1.1 400 Bad"])
async def test_an_answer_that_makes_no_sense_ends_the_connection(said: bytes) -> None:
    async def confuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(said)

    async with connected(confuse) as (broker, heard):
        send(broker)
        await heard.until(lambda: bool(heard.errors))
        assert heard.answers == []
        assert not broker.is_open


@pytest.mark.parametrize("address", [None, ("127.0.0.1", 1)])
async def test_a_broker_that_is_not_there_is_said_to_be_unreachable(
    address: tuple[str, int] | None,
) -> None:
    heard = Heard()
    async with asyncio.TaskGroup() as tasks:
        broker = Broker(3, heard, tasks=tasks, answer_timeout=SOON)
        broker.open(lambda: address)
        await heard.until(lambda: bool(heard.unreached))
    assert (heard.unreached, broker.is_open) == ([3], False)
