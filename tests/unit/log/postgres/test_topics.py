"""Looking topics up: whoever waits for the answer goes on in turn."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, cast

from app.domain.errors import LogUnavailableError
from app.log.postgres.connection import Connection, PostgresConnections
from app.log.postgres.topics import KnownTopic, Topics


class Slow:
    """Connections on which a lookup ends when it is told to, with the latest clock."""

    def __init__(self) -> None:
        self.asked: asyncio.Queue[asyncio.Future[KnownTopic | None]] = asyncio.Queue()

    async def run(
        self,
        operation: Callable[[Connection], Awaitable[Any]],
        *,
        seconds_max: float,
    ) -> KnownTopic | None:
        del operation
        answer: asyncio.Future[KnownTopic | None] = asyncio.get_running_loop().create_future()
        self.asked.put_nowait(answer)
        try:
            async with asyncio.timeout(seconds_max):
                return await answer
        except TimeoutError as error:
            raise LogUnavailableError("no answer") from error


def found() -> KnownTopic:
    return KnownTopic(
        id=1,
        partitions=1,
        message_size_max=1,
        retention=timedelta(days=1),
        known_at=asyncio.get_running_loop().time(),
    )


async def test_callers_go_on_in_the_order_in_which_they_came() -> None:
    slow, went_on = Slow(), list[int]()
    topics = Topics(cast("PostgresConnections", slow), "t.")

    async def call(number: int) -> None:
        await topics.find("a")
        went_on.append(number)

    async with asyncio.TaskGroup() as tasks:
        for number in range(4):
            tasks.create_task(call(number))
        answer = await slow.asked.get()
        answer.set_result(found())
        # This one comes when the topic is known, and three still wait for their turn.
        asyncio.get_running_loop().call_soon(lambda: tasks.create_task(call(4)))
    assert went_on == [0, 1, 2, 3, 4]
    assert slow.asked.empty()


async def test_one_that_is_cancelled_leaves_its_turn_to_the_next() -> None:
    slow = Slow()
    topics = Topics(cast("PostgresConnections", slow), "t.")
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(topics.find("a"))
        second = tasks.create_task(topics.find("a"))
        await slow.asked.get()
        first.cancel()
        (await slow.asked.get()).set_result(found())
    assert second.result().id == 1


async def test_all_that_wait_for_one_lookup_are_told_in_time_that_there_is_no_answer() -> None:
    topics = Topics(cast("PostgresConnections", Slow()), "t.")
    calls = (topics.find("a", seconds_max=0.02) for _ in range(20))
    async with asyncio.timeout(60):
        results = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(result) for result in results] == [LogUnavailableError] * 20


async def test_a_topic_that_is_looked_up_does_not_hold_up_another() -> None:
    slow = Slow()
    topics = Topics(cast("PostgresConnections", slow), "t.")
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(topics.find("a"))
        of_a = await slow.asked.get()
        other = tasks.create_task(topics.find("b"))
        (await slow.asked.get()).set_result(found())
        assert (await other).id == 1
        assert not waiting.done()
        of_a.set_result(found())
