"""One access token for all connections: how it is renewed, and what there is without one."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import pytest

from app.log.kafka.refusals import RefusedError
from app.log.kafka.tokens.access_tokens import PAUSE_MIN_S, REPLACED_AFTER_S, AccessTokens
from app.token_answers import Issued, TokenRequestError

ORIGIN: Final = "https://login.test/token"
HOUR: Final = 3_600.0
# Shorter than the turn of a loop that renews it.
MOMENT: Final = 0.01


class Source:
    """Issues tokens when a test does."""

    def __init__(self) -> None:
        self.requests = 0
        self._answers: asyncio.Queue[Issued | Exception] = asyncio.Queue()
        self._requested = asyncio.Condition()

    def answer(self, answer: Issued | Exception) -> None:
        self._answers.put_nowait(answer)

    async def request(self) -> Issued:
        self.requests += 1
        async with self._requested:
            self._requested.notify_all()
        answer = await self._answers.get()
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def requested(self, times: int) -> None:
        async with self._requested:
            await self._requested.wait_for(lambda: self.requests >= times)


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def tokens(source: Source, clock: Clock) -> AsyncIterator[AccessTokens]:
    async with AccessTokens(source, origin=ORIGIN, clock=clock) as tokens:
        yield tokens


async def test_nothing_is_requested_before_it_is_needed(
    tokens: AccessTokens, source: Source
) -> None:
    with pytest.raises(RefusedError, match="there is none from https"):
        tokens.token()
    assert source.requests == 0


async def test_all_wait_for_one_request(tokens: AccessTokens, source: Source) -> None:
    async with asyncio.TaskGroup() as waiting:
        for _ in range(3):
            waiting.create_task(tokens.ready())
        await source.requested(1)
        source.answer(Issued("t-1", HOUR))
    await tokens.ready()
    assert tokens.token() == "t-1"
    assert source.requests == 1


async def test_a_thread_is_told_as_well(tokens: AccessTokens, source: Source) -> None:
    told = asyncio.Event()
    source.answer(Issued("t-1", HOUR))
    await asyncio.to_thread(tokens.notify_from_thread, told.set)
    await told.wait()
    assert tokens.token() == "t-1"


async def test_a_token_is_renewed_before_it_ends_and_used_meanwhile(
    tokens: AccessTokens, source: Source, clock: Clock
) -> None:
    source.answer(Issued("t-1", MOMENT))
    await tokens.ready()
    await source.requested(2)
    # The clock stands still: it has not ended.
    assert tokens.token() == "t-1"
    source.answer(Issued("t-2", HOUR))
    clock.now += 2 * MOMENT
    await tokens.ready()
    assert tokens.token() == "t-2"


async def test_a_token_is_used_to_its_end_while_there_is_no_other(
    tokens: AccessTokens, source: Source, clock: Clock
) -> None:
    source.answer(Issued("t-1", MOMENT))
    source.answer(TokenRequestError("it answers 500"))
    await tokens.ready()
    # The request after the one that fails.
    await source.requested(3)
    assert tokens.token() == "t-1"
    clock.now += 2 * MOMENT
    await tokens.ready()
    with pytest.raises(RefusedError, match=r"/token: it answers 500$"):
        tokens.token()


async def test_a_request_that_fails_is_repeated_after_a_pause(
    tokens: AccessTokens, source: Source
) -> None:
    begun = asyncio.get_running_loop().time()
    source.answer(TokenRequestError("it answers 401"))
    await tokens.ready()
    await tokens.ready()
    assert source.requests == 1
    source.answer(RuntimeError("of ours"))
    source.answer(Issued("t-1", HOUR))
    await source.requested(3)
    assert asyncio.get_running_loop().time() - begun >= 3 * PAUSE_MIN_S
    await tokens.ready()
    assert tokens.token() == "t-1"


async def test_a_token_that_a_broker_refuses_is_replaced_unless_it_is_new(
    tokens: AccessTokens, source: Source, clock: Clock
) -> None:
    source.answer(Issued("t-1"))
    await tokens.ready()
    tokens.refused()
    clock.now += REPLACED_AFTER_S
    assert source.requests == 1
    tokens.refused()
    await source.requested(2)
    assert tokens.token() == "t-1"


async def test_a_refused_token_shortens_no_pause_after_failed_requests(
    tokens: AccessTokens, source: Source, clock: Clock
) -> None:
    source.answer(Issued("t-1", HOUR))
    await tokens.ready()
    clock.now += REPLACED_AFTER_S
    source.answer(TokenRequestError("it answers 503"))
    tokens.refused()
    await source.requested(2)
    for _ in range(50):
        tokens.refused()
        await asyncio.sleep(0)
    assert source.requests == 2
    clock.now += REPLACED_AFTER_S
    tokens.refused()
    await source.requested(3)


async def test_who_waits_at_the_end_is_told(source: Source) -> None:
    async with AccessTokens(source, origin=ORIGIN) as tokens:
        waiting = asyncio.ensure_future(tokens.ready())
        await source.requested(1)
    await waiting
    with pytest.raises(RefusedError):
        tokens.token()
