"""The connection of appends to one broker, against servers that behave as brokers may."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from app.domain.errors import LogUnavailableError
from app.log.interface import LogStats
from app.log.kafka.append_queues import AppendBatch, AppendTopic
from app.log.kafka.broker import IN_FLIGHT_MAX, Broker
from app.log.kafka.protocol.appends import Answers
from app.log.kafka.protocol.wire import FRAME_LENGTH
from tests.integration.log.brokers import (
    NONSENSE,
    PLAIN,
    Serve,
    answer,
    hang_up,
    never,
    saying,
    serving,
)

PATIENCE_S = 60.0
LONG = timedelta(seconds=PATIENCE_S)
# Where nothing comes.
SOON = timedelta(seconds=0.2)


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

    def answered(self, batches: Sequence[AppendBatch], answers: Answers) -> None:
        assert batches
        self.answers.append(answers)
        self._told.set()

    def lost(self, batches: Sequence[AppendBatch], error: LogUnavailableError) -> None:
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
async def connected(
    serve: Serve, answer_timeout: timedelta = LONG, *, stats: LogStats | None = None
) -> AsyncIterator[tuple[Broker, Heard]]:
    heard = Heard()
    async with serving(serve) as address, asyncio.TaskGroup() as tasks:
        broker = Broker(
            3,
            heard,
            credentials=PLAIN,
            tasks=tasks,
            answer_timeout=answer_timeout,
            stats=stats or LogStats(),
        )
        broker.open(lambda: address)
        await heard.until(lambda: bool(heard.openings))
        try:
            yield broker, heard
        finally:
            broker.close()


def a_batch() -> list[AppendBatch]:
    return [AppendBatch(AppendTopic("t"), 0, 3, [])]


def send(broker: Broker) -> None:
    broker.send(FRAME_LENGTH.pack, a_batch())


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
    async with connected(serve, SOON) as (broker, heard):
        send(broker)
        await heard.until(lambda: bool(heard.errors))
        assert not broker.is_open
        assert len(heard.errors) == 1


@pytest.mark.parametrize("said", NONSENSE)
async def test_an_answer_that_makes_no_sense_ends_the_connection(said: bytes) -> None:
    async with connected(saying(said)) as (broker, heard):
        send(broker)
        await heard.until(lambda: bool(heard.errors))
        assert heard.answers == []
        assert not broker.is_open


@pytest.mark.parametrize("address", [None, ("127.0.0.1", 1), ("127.0.0.1", 70_000), ("\udcff", 1)])
async def test_a_broker_that_is_not_there_is_said_to_be_unreachable(
    address: tuple[str, int] | None,
) -> None:
    heard = Heard()
    async with asyncio.TaskGroup() as tasks:
        broker = Broker(
            3, heard, credentials=PLAIN, tasks=tasks, answer_timeout=SOON, stats=LogStats()
        )
        broker.open(lambda: address)
        await heard.until(lambda: bool(heard.unreached))
    assert (heard.unreached, broker.is_open) == ([3], False)
