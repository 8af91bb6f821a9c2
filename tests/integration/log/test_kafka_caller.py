"""Asking one broker, against servers that behave as brokers may."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from app.domain.errors import LogUnavailableError
from app.log.kafka.caller import BrokerCaller
from app.log.kafka.client import NotSentError
from app.log.kafka.link import PACE_BYTES, Address
from app.log.kafka.protocol.wire import FRAME_LENGTH, correlation_of
from tests.integration.log.brokers import (
    NONSENSE,
    PLAIN,
    Serve,
    an_answer,
    answer,
    hang_up,
    never,
    saying,
    serving,
)

LONG = timedelta(seconds=60)
# Less than a large answer takes, and more than any piece of it.
QUITE_SOON = timedelta(seconds=2)
# More turns of the loop than an answer needs that is there.
TURNS = 50
# Where nothing comes.
SOON = timedelta(seconds=0.2)


@asynccontextmanager
async def calling(serve: Serve, answer_timeout: timedelta = LONG) -> AsyncIterator[BrokerCaller]:
    async with serving(serve) as address:
        caller = BrokerCaller(3, lambda: address, credentials=PLAIN, answer_timeout=answer_timeout)
        try:
            yield caller
        finally:
            caller.close()


async def ask(caller: BrokerCaller) -> bytes:
    return await caller.ask(FRAME_LENGTH.pack)


async def test_each_request_gets_its_own_answer_by_one_connection() -> None:
    async with calling(answer) as caller:
        answers = await asyncio.gather(*(ask(caller) for _ in range(20)))
    assert [correlation_of(each) for each in answers] == list(range(1, 21))


async def test_answers_to_what_is_sent_together_are_left_unread_for_a_while() -> None:
    has_answered = asyncio.Event()

    async def answer_first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(2 * FRAME_LENGTH.size)
        writer.write(an_answer(1))
        await writer.drain()
        has_answered.set()
        await reader.read()

    async with serving(answer_first) as address:
        caller = BrokerCaller(
            3, lambda: address, credentials=PLAIN, answer_timeout=LONG, read_together=LONG
        )
        answers = await caller.ask_all([FRAME_LENGTH.pack] * 2)
        await has_answered.wait()
        for _ in range(TURNS):
            await asyncio.sleep(0)
        assert not any(each.done() for each in answers)
        caller.close()
        await asyncio.wait(answers)


async def test_answers_to_what_is_sent_together_are_read_after_that() -> None:
    async with calling(answer) as caller:
        answers = await asyncio.gather(*await caller.ask_all([FRAME_LENGTH.pack] * 20))
    assert [correlation_of(each) for each in answers] == list(range(1, 21))


async def test_an_answer_that_nobody_waits_for_any_more_is_not_given_to_another() -> None:
    came, go_on = asyncio.Event(), asyncio.Event()

    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(FRAME_LENGTH.size)
        came.set()
        await go_on.wait()
        writer.write(an_answer(1))
        await answer(reader, writer)

    async with calling(late) as caller:
        first = asyncio.create_task(ask(caller))
        await came.wait()
        first.cancel()
        second = asyncio.create_task(ask(caller))
        go_on.set()
        assert correlation_of(await second) == 2


@pytest.mark.parametrize("serve", [never, hang_up, *map(saying, NONSENSE)])
async def test_what_was_asked_fails_with_its_connection_and_the_next_one_is_new(
    serve: Serve,
) -> None:
    served = 0

    async def then_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal served
        served += 1
        await (serve if served == 1 else answer)(reader, writer)

    async with calling(then_answer, QUITE_SOON) as caller:
        failed = await asyncio.gather(*(ask(caller) for _ in range(2)), return_exceptions=True)
        assert [type(error) for error in failed] == [LogUnavailableError] * 2
        assert correlation_of(await ask(caller)) == 3
    assert served == 2


async def test_a_large_answer_is_waited_for_as_long_as_it_comes_in() -> None:
    size = 4 * PACE_BYTES

    async def slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(2 * FRAME_LENGTH.size)
        writer.write(FRAME_LENGTH.pack(size + FRAME_LENGTH.size) + FRAME_LENGTH.pack(1))
        for _ in range(4):
            await asyncio.wait([asyncio.Future[None]()], timeout=0.6)
            writer.write(bytes(PACE_BYTES))
        await reader.read()

    async with calling(slowly, QUITE_SOON) as caller:
        first, second = asyncio.create_task(ask(caller)), asyncio.create_task(ask(caller))
        assert len(await first) == size + FRAME_LENGTH.size
        # Nothing comes any more.
        with pytest.raises(LogUnavailableError):
            await second


async def test_who_waits_for_a_connection_that_fails_waits_for_one_try() -> None:
    tries = 0

    def address() -> Address:
        nonlocal tries
        tries += 1
        return "127.0.0.1", 1

    caller = BrokerCaller(3, address, credentials=PLAIN, answer_timeout=SOON)
    failed = await asyncio.gather(*(ask(caller) for _ in range(20)), return_exceptions=True)
    assert [type(error) for error in failed] == [NotSentError] * 20
    assert tries == 1
    with pytest.raises(NotSentError):
        await ask(caller)
    assert tries == 2


@pytest.mark.parametrize("address", [None, ("127.0.0.1", 1)])
async def test_nothing_is_sent_to_a_broker_that_is_not_there(address: Address | None) -> None:
    with pytest.raises(NotSentError):
        await ask(BrokerCaller(3, lambda: address, credentials=PLAIN, answer_timeout=SOON))


async def test_closing_ends_what_is_asked_and_nothing_is_asked_after_it() -> None:
    came = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        came.set()

    async with serving(silent) as address:
        caller = BrokerCaller(
            3, lambda: address, credentials=PLAIN, answer_timeout=timedelta(seconds=60)
        )
        asked = asyncio.create_task(ask(caller))
        await came.wait()
        caller.close()
        with pytest.raises(LogUnavailableError):
            await asked
        with pytest.raises(NotSentError):
            await ask(caller)
