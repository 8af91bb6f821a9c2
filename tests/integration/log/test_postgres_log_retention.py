"""What the embedded log drops, and what it keeps."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from app.log.interface import Bounds, LogTopic, MessageLog
from app.log.postgres import postgres_log
from tests.contract.logs import TOPIC, a_topic, created, eventually, read_values, records

INTERVAL = timedelta(seconds=0.1)
_LISTENING = (
    "FROM pg_stat_activity WHERE datname = current_database()"
    " AND application_name = 'angelia-log-listen' AND state = 'idle'"
)


@pytest.fixture
async def log(postgres_url: str) -> AsyncIterator[MessageLog]:
    async with postgres_log(postgres_url, namespace="t.", retention_interval=INTERVAL) as opened:
        yield opened


async def asked(url: str, query: str) -> list[tuple[Any, ...]]:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        cursor = await connection.execute(query.encode())
        return await cursor.fetchall() if cursor.description else []


async def test_records_are_dropped_when_they_are_older_than_the_topic_keeps_them(
    log: MessageLog, postgres_url: str
) -> None:
    await log.create_topic(
        LogTopic(name=TOPIC, partitions=1, retention=timedelta(hours=1), message_size_max=100_000)
    )
    (partition,) = await log.partitions(TOPIC)
    await log.append(TOPIC, records("a", "b"))

    async def dropped() -> bool:
        return (await log.bounds([partition]))[partition] == Bounds(2, 2)

    assert not await dropped()
    await asked(postgres_url, "UPDATE log_records SET appended_at = now() - interval '61 min'")
    await eventually(dropped)
    (position,) = await log.append(TOPIC, records("c"))
    assert position.offset == 2


async def test_many_old_records_are_dropped_and_younger_ones_stay(
    log: MessageLog, postgres_url: str
) -> None:
    (partition,) = await created(log)
    await log.append(TOPIC, records(*map(str, range(2_500))))
    await asked(postgres_url, "UPDATE log_records SET appended_at = now() - interval '2 days'")
    await log.append(TOPIC, records("young", "younger"))

    async def dropped() -> bool:
        return (await log.bounds([partition]))[partition] == Bounds(2_500, 2_502)

    await eventually(dropped)
    assert await read_values(log, partition, 2_500) == ["young", "younger"]
    assert await asked(postgres_url, "SELECT count(*) FROM log_records") == [(2,)]


async def test_an_old_record_stays_behind_a_younger_one(log: MessageLog, postgres_url: str) -> None:
    (partition,) = await created(log)
    await log.append(TOPIC, records("old", "young", "old"))
    await asked(
        postgres_url,
        "UPDATE log_records SET appended_at = now() - interval '2 days' WHERE value = 'old'",
    )

    async def dropped() -> bool:
        return (await log.bounds([partition]))[partition] == Bounds(1, 3)

    await eventually(dropped)
    assert await read_values(log, partition, 1) == ["young", "old"]


async def test_a_shorter_retention_is_applied_to_what_is_there(
    log: MessageLog, postgres_url: str
) -> None:
    (partition,) = await created(log)
    await log.append(TOPIC, records("a"))
    await asked(postgres_url, "UPDATE log_records SET appended_at = now() - interval '3 hours'")
    await log.alter_topic(
        LogTopic(name=TOPIC, partitions=1, retention=timedelta(hours=2), message_size_max=100_000)
    )

    async def dropped() -> bool:
        return (await log.bounds([partition]))[partition] == Bounds(1, 1)

    await eventually(dropped)


async def test_the_records_of_a_deleted_topic_are_dropped_and_no_others(
    log: MessageLog, postgres_url: str
) -> None:
    await created(log)
    (kept,) = await created(log, "shop.kept")
    await log.append(TOPIC, records(*map(str, range(2_500))))
    await log.append("shop.kept", records("a"))
    await log.delete_topic(TOPIC)
    await log.create_topic(a_topic(partitions=1))
    await log.append(TOPIC, records("anew"))

    async def dropped() -> bool:
        count = await asked(postgres_url, "SELECT count(*) FROM log_records")
        topics = await asked(postgres_url, "SELECT count(*) FROM log_topics")
        return (count, topics) == ([(2,)], [(2,)])

    await eventually(dropped)
    assert await read_values(log, kept) == ["a"]


async def test_two_processes_drop_side_by_side(log: MessageLog, postgres_url: str) -> None:
    (partition,) = await created(log)
    async with postgres_log(postgres_url, namespace="t.", retention_interval=INTERVAL):
        for _ in range(3):
            await log.append(TOPIC, records(*map(str, range(1_500))))
            await asked(
                postgres_url,
                # Without the lock it would wait for those that drop, and they for it.
                "LOCK TABLE log_records IN EXCLUSIVE MODE;"
                " UPDATE log_records SET appended_at = now() - interval '2 days'",
            )
        await log.append(TOPIC, records("young"))

        async def dropped() -> bool:
            return (await log.bounds([partition]))[partition] == Bounds(4_500, 4_501)

        await eventually(dropped)


async def test_what_is_due_while_nobody_listened_is_dropped_when_somebody_does_again(
    postgres_url: str,
) -> None:
    # The next round is an hour away, and no notice comes.
    long = timedelta(hours=1)
    async with postgres_log(postgres_url, namespace="t.", retention_interval=long) as log:
        (partition,) = await created(log)
        await log.append(TOPIC, records("a", "b"))

        async def listens() -> bool:
            found = await asked(postgres_url, f"SELECT count(*) {_LISTENING}")
            return found == [(1,)]

        await eventually(listens)
        await asked(postgres_url, "UPDATE log_records SET appended_at = now() - interval '2 days'")
        await asked(postgres_url, f"SELECT pg_terminate_backend(pid) {_LISTENING}")

        async def dropped() -> bool:
            return (await log.bounds([partition]))[partition] == Bounds(2, 2)

        await eventually(dropped)
