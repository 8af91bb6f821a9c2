"""Messages that were sent again and discarded again: listed once, as they ended last."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from app.domain.message import Partition
from app.domain.redrive import RedriveFilter
from app.domain.undelivered import Undelivered, UndeliveredFilter
from app.services.traces import TraceService
from app.storage.database import Database
from app.storage.recorder_positions import RecorderPositions
from app.storage.redrives import RedriveRepository
from app.storage.undelivered import UndeliveredRepository
from tests.integration.storage.builders import an_undelivered

STREAM = Partition("angelia.undelivered", 2)
REDRIVE = "r" * 32


def its_second_end(first: Undelivered, **settings: Any) -> Undelivered:  # noqa: ANN401 - fields of the value
    """As its copy ends, at the end of the log."""
    values: dict[str, Any] = {
        "partition": 1,
        "offset": first.offset + 1_000,
        "discarded_at": first.discarded_at + timedelta(hours=1),
        "retransmission": REDRIVE,
    }
    return replace(first, **{**values, **settings})


async def record(database: Database, *discards: Undelivered) -> None:
    async with database.transaction() as session:
        before = (await RecorderPositions(session).all()).get(STREAM, 0)
        await UndeliveredRepository(session).record(discards, STREAM, before + len(discards))


async def redrive(database: Database, *message_ids: str, again: bool = False) -> int:
    """How many were marked as sent again by the redrive."""
    wanted = RedriveFilter(message_ids=message_ids, again=again)
    async with database.transaction() as session:
        chosen = await RedriveRepository(session).choose("s-1", wanted, limit=10)
        await RedriveRepository(session).mark([each.row for each in chosen], REDRIVE)
    return len(chosen)


async def listed(database: Database) -> list[tuple[int, int]]:
    async with database.transaction() as session:
        asked = UndeliveredFilter(subscription_id="s-1")
        page = await UndeliveredRepository(session).page(asked, limit=100)
        last = await UndeliveredRepository(session).last("s-1")
    assert page.items[:1] == (last,)
    return [(item.partition, item.offset) for item in page.items]


async def test_it_is_listed_once_as_it_ended_last(database: Database) -> None:
    first, other = an_undelivered(3), an_undelivered(4)
    await record(database, first, other)
    assert await redrive(database, "m-3") == 1
    assert await listed(database) == [(0, 4), (0, 3)]
    await record(database, its_second_end(first))
    assert await listed(database) == [(1, 1_003), (0, 4)]


async def test_it_is_sent_again_once(database: Database) -> None:
    first = an_undelivered(3)
    await record(database, first)
    await redrive(database, "m-3")
    await record(database, its_second_end(first))
    assert await redrive(database, "m-3", again=True) == 1


async def test_both_ends_are_in_its_trace(database: Database) -> None:
    first = an_undelivered(3)
    await record(database, first)
    await redrive(database, "m-3")
    await record(database, its_second_end(first))
    trace = await TraceService(database).of_message("m-3")
    assert [each.offset for each in trace.entries] == [3, 1_003]


async def test_what_is_no_copy_of_it_stays_listed(database: Database) -> None:
    first = an_undelivered(3)
    # Published twice under one id; the other was not sent again, or not by this redrive.
    namesake = replace(first, offset=5)
    await record(database, first)
    await redrive(database, "m-3")
    await record(database, namesake, replace(first, subscription_id="s-2"))
    await record(database, its_second_end(first))
    assert await listed(database) == [(1, 1_003), (0, 5)]
    await record(database, its_second_end(namesake, offset=1_005, retransmission="s" * 32))
    assert await listed(database) == [(1, 1_005), (1, 1_003), (0, 5)]


async def test_one_that_ends_before_its_redrive_is_through_is_listed_once(
    database: Database,
) -> None:
    first = an_undelivered(3)
    await record(database, first)
    async with asyncio.TaskGroup() as tasks:
        async with database.transaction() as session:
            redrives = RedriveRepository(session)
            (chosen,) = await redrives.choose("s-1", RedriveFilter(), limit=1)
            recording = tasks.create_task(record(database, its_second_end(first)))
            await until_one_waits(database)
            await redrives.mark([chosen.row], REDRIVE)
        await recording
    assert await listed(database) == [(1, 1_003)]


async def test_what_is_discarded_once_more_where_it_stood_is_listed(database: Database) -> None:
    first = an_undelivered(3)
    await record(database, first)
    await redrive(database, "m-3")
    await record(database, its_second_end(first))
    # Somebody has gone back in the log.
    await record(database, replace(first, discarded_at=first.discarded_at + timedelta(days=9999)))
    assert (0, 3) in await listed(database)


async def until_one_waits(database: Database) -> None:
    waiting = text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
    async with asyncio.timeout(10):
        while True:
            async with database.transaction() as session:
                if await session.scalar(waiting):
                    return


@pytest.mark.parametrize("count", [1, 3])
async def test_many_copies_may_end_at_once(database: Database, count: int) -> None:
    firsts = [an_undelivered(number) for number in range(count)]
    await record(database, *firsts)
    await redrive(database)
    await record(database, *[its_second_end(each) for each in firsts])
    assert sorted(await listed(database)) == [(1, 1_000 + number) for number in range(count)]
