"""The embedded log when its server, its connections or the processes that use it break."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta

import psycopg
import pytest

from app.domain.errors import LogUnavailableError
from app.domain.message import Partition
from app.log.interface import Assigned, Committed, Lost, MessageLog
from app.log.postgres import postgres_log
from tests.contract.harness import MemberProcess
from tests.contract.logs import (
    EVENTUALLY,
    MEBIBYTE,
    TOPIC,
    Collected,
    Holder,
    created,
    eventually,
    read_all,
    records,
    values,
)
from tests.servers.postgres import PostgresServer

# An append's timeout is 5 s; the rest is for a busy machine.
APPEND_SECONDS_MAX = 20.0


@pytest.fixture
async def log(postgres_server: PostgresServer) -> AsyncIterator[MessageLog]:
    async with postgres_log(postgres_server.url, namespace="t.") as opened:
        yield opened


async def appended(log: MessageLog, value: str) -> None:
    """Append until the log takes it."""

    async def taken() -> bool:
        try:
            await log.append(TOPIC, records(value))
        except LogUnavailableError:
            return False
        return True

    await eventually(taken)


def assert_one_line(error: LogUnavailableError) -> None:
    """Publishers get the message. libpq's has several lines, with tabs."""
    assert error.message.isprintable(), error.message


async def test_a_publisher_is_told_in_time_that_the_server_is_down_and_the_log_comes_back_by_itself(
    log: MessageLog, postgres_server: PostgresServer
) -> None:
    (partition,) = await created(log)
    await log.append(TOPIC, records("before"))
    await asyncio.to_thread(postgres_server.stop)
    for _ in range(2):
        async with asyncio.timeout(APPEND_SECONDS_MAX):
            with pytest.raises(LogUnavailableError) as told:
                await log.append(TOPIC, records("lost"))
        assert_one_line(told.value)
    await asyncio.to_thread(postgres_server.start)
    await appended(log, "after")
    assert values(await read_all(log, partition)) == ["before", "after"]


async def test_a_publisher_is_told_in_time_that_the_server_hangs_and_the_log_comes_back_by_itself(
    log: MessageLog, postgres_server: PostgresServer
) -> None:
    await created(log)
    await log.append(TOPIC, records("before"))
    postgres_server.freeze()
    for _ in range(2):
        async with asyncio.timeout(APPEND_SECONDS_MAX):
            with pytest.raises(LogUnavailableError):
                await log.append(TOPIC, records("perhaps"))
    postgres_server.thaw()
    await appended(log, "after")


@pytest.mark.parametrize("failure", ["stop", "freeze"])
async def test_every_call_is_bounded_while_the_server_does_not_answer(
    log: MessageLog, postgres_server: PostgresServer, failure: str
) -> None:
    (partition,) = await created(log)
    await asyncio.to_thread(getattr(postgres_server, failure))
    calls: list[Callable[[], Awaitable[object]]] = [
        log.ping,
        lambda: log.fetch(partition, 0, bytes_max=MEBIBYTE, wait=timedelta(hours=1)),
        lambda: log.commit({"g": {partition: Committed(1)}}),
        lambda: log.committed({"g": [partition]}),
        lambda: log.bounds([partition]),
        lambda: log.published({TOPIC: 1}),
        lambda: log.offsets_at([partition], 0),
        lambda: log.partitions(TOPIC),
        lambda: log.delete_topic(TOPIC),
    ]

    async def failed(call: Callable[[], Awaitable[object]]) -> None:
        with pytest.raises(LogUnavailableError) as told:
            await call()
        assert_one_line(told.value)

    async with asyncio.timeout(EVENTUALLY):
        await asyncio.gather(*map(failed, calls))


async def test_a_tail_waits_for_a_server_that_is_down_and_goes_on_where_it_was(
    log: MessageLog, postgres_server: PostgresServer
) -> None:
    (partition,) = await created(log)
    async with log.tail() as tail, asyncio.TaskGroup() as tasks:
        tail.follow(partition, 0)
        read = Collected(tail)
        await log.append(TOPIC, records("before"))
        await read.until(partition, "before")
        reading = tasks.create_task(
            read.until(partition, "before", "after", seconds=2 * EVENTUALLY)
        )
        await asyncio.to_thread(postgres_server.kill)
        with pytest.raises(LogUnavailableError):
            await log.append(TOPIC, records("lost"))
        await asyncio.to_thread(postgres_server.start)
        await appended(log, "after")
        await reading


async def test_a_member_whose_server_went_away_loses_all_and_joins_again(
    log: MessageLog, postgres_server: PostgresServer
) -> None:
    partitions = frozenset(await created(log, partitions=4))
    async with log.ownership(member="a") as ownership:
        ownership.subscribe([TOPIC])
        events = ownership.events()
        async with asyncio.timeout(2 * EVENTUALLY):
            assert await anext(events) == Assigned(partitions)
            await asyncio.to_thread(postgres_server.stop)
            assert await anext(events) == Lost(partitions)
            await asyncio.to_thread(postgres_server.start)
            assert await anext(events) == Assigned(partitions)


async def test_nothing_acknowledged_is_lost_when_the_server_is_killed(
    log: MessageLog, postgres_server: PostgresServer
) -> None:
    partitions = await created(log, partitions=3)
    acknowledged: list[str] = []

    async def publish(publisher: int) -> None:
        number = 0
        with suppress(LogUnavailableError):
            while True:
                await log.append(TOPIC, records(f"{publisher}-{number}"))
                acknowledged.append(f"{publisher}-{number}")
                number += 1

    async with asyncio.TaskGroup() as tasks:
        for publisher in range(20):
            tasks.create_task(publish(publisher))
        await eventually(lambda: _has(acknowledged, 500))
        await asyncio.to_thread(postgres_server.kill)
    await asyncio.to_thread(postgres_server.start)
    await appended(log, "after")
    assert set(acknowledged) <= set(await all_values_without_holes(log, partitions))


async def test_nothing_acknowledged_is_lost_when_the_process_that_appends_is_killed(
    postgres_url: str,
) -> None:
    async with postgres_log(postgres_url, namespace="t.") as log:
        partitions = await created(log, partitions=3)
        acknowledged = await acknowledged_until_killed(postgres_url, 2_000)
        assert len(acknowledged) >= 2_000
        # The server may still be at the last transaction of a process that is no more.
        await appended(log, "after")
        stored = await all_values_without_holes(log, partitions)
    assert set(acknowledged) <= set(stored)
    assert len(set(stored)) == len(stored)


async def acknowledged_until_killed(url: str, enough: int) -> list[str]:
    """What a process had acknowledged when it was killed in the middle of its appends."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.integration.log.appending", url, "t.", TOPIC),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    acknowledged = []
    try:
        async with asyncio.timeout(2 * EVENTUALLY):
            async for line in process.stdout:
                acknowledged.append(line.decode().strip())
                if len(acknowledged) == enough:
                    process.kill()
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    return acknowledged


async def all_values_without_holes(log: MessageLog, partitions: list[Partition]) -> list[str]:
    """All values of the topic, whose offsets must have no holes."""
    found = []
    for partition in partitions:
        stored = await read_all(log, partition)
        assert [record.offset for record in stored] == list(range(len(stored)))
        found += values(stored)
    return found


async def test_appends_are_heard_of_although_the_connection_that_listens_was_cut(
    postgres_url: str,
) -> None:
    async with postgres_log(postgres_url, namespace="t.") as log, log.tail() as tail:
        (partition,) = await created(log)
        tail.follow(partition, 0)
        read = Collected(tail)
        await log.append(TOPIC, records("a"))
        await read.until(partition, "a")
        await cut(postgres_url, "listen", connections=2)
        await log.append(TOPIC, records("b"))
        await read.until(partition, "a", "b")
        await cut(postgres_url, "tail")
        await log.append(TOPIC, records("c"))
        await read.until(partition, "a", "b", "c")


async def test_calls_survive_that_their_idle_connections_were_cut(postgres_url: str) -> None:
    async with postgres_log(postgres_url, namespace="t.") as log:
        (partition,) = await created(log)
        await cut(postgres_url, "calls")
        assert len(await log.bounds([partition])) == 1
        await log.append(TOPIC, records("a"))
        await cut(postgres_url, "append")
        await log.append(TOPIC, records("b"))
        assert values(await read_all(log, partition)) == ["a", "b"]


async def test_a_process_that_knew_the_topic_appends_to_the_one_created_anew(
    postgres_url: str,
) -> None:
    async with (
        postgres_log(postgres_url, namespace="t.") as log,
        postgres_log(postgres_url, namespace="t.") as other,
    ):
        await created(log)
        await other.append(TOPIC, records("old"))
        # What happens now it is not told.
        await cut(postgres_url, "listen", connections=2)
        await log.delete_topic(TOPIC)
        (partition,) = await created(log)
        await other.append(TOPIC, records("new"))
        assert values(await read_all(log, partition)) == ["new"]


async def test_a_member_that_hangs_is_replaced_and_learns_of_it(postgres_url: str) -> None:
    async with postgres_log(postgres_url, namespace="t.") as log:
        partitions = set(await created(log, partitions=4))
        async with (
            frozen_member(postgres_url, partitions=4) as process,
            log.ownership(member="b") as ownership,
            asyncio.TaskGroup() as tasks,
        ):
            holder = Holder(ownership)
            following = tasks.create_task(holder.run())
            ownership.subscribe([TOPIC])
            await holder.until(lambda h: h.owned == partitions)
            process.send_signal(signal.SIGCONT)
            # Back again it is a member like any other, and gets its share.
            await holder.until(lambda h: bool(h.revoked))
            following.cancel()


@asynccontextmanager
async def frozen_member(url: str, *, partitions: int) -> AsyncIterator[asyncio.subprocess.Process]:
    async with AsyncExitStack() as stack:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.contract.member", "postgres", url, "t.", "a", TOPIC),
            stdout=asyncio.subprocess.PIPE,
        )
        member = MemberProcess(process)
        stack.push_async_callback(member.kill)
        await member.owns(partitions)
        process.send_signal(signal.SIGSTOP)
        yield process


async def cut(url: str, purpose: str, *, connections: int = 1) -> None:
    """Have the server end the connections of that purpose once they are there, and wait for it."""
    left = connections
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:

        async def none_left() -> bool:
            # A log that was opened a moment ago may still be connecting.
            nonlocal left
            cursor = await connection.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
                "WHERE application_name = %s AND datname = current_database()",
                [f"angelia-log-{purpose}"],
            )
            left -= cursor.rowcount
            return left <= 0

        await eventually(none_left)


async def _has(found: list[str], number: int) -> bool:
    return len(found) >= number
