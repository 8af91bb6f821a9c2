"""Messages that were sent again and discarded again: listed once, as they ended last."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from app.domain.discards.redrive import RedriveFilter
from app.domain.discards.retractions import Entry, Retraction
from app.domain.discards.undelivered import Undelivered, UndeliveredFilter
from app.domain.message import Partition
from app.postgres.urls import libpq_url
from app.services.inspection.traces import TraceService
from app.storage.database import Database
from app.storage.discards.redrives import RedriveRepository
from app.storage.discards.undelivered import UndeliveredRepository
from app.storage.runtime.recorder_positions import RecorderPositions
from app.storage.spark.retransmission_rows import Discards, discards
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


async def record(database: Database, *entries: Entry) -> None:
    async with database.transaction() as session:
        before = (await RecorderPositions(session).all()).get(STREAM, 0)
        await UndeliveredRepository(session).record(entries, STREAM, before + len(entries))


def a_retraction(end: Undelivered) -> Retraction:
    """Of the worker that discarded it, before that was committed."""
    return Retraction(
        subscription_id=end.subscription_id,
        partition=end.partition,
        producer_epoch=end.producer_epoch,
        offset=end.offset,
        finished=(),
    )


async def redrive(
    database: Database, *message_ids: str, again: bool = False, redrive_id: str = REDRIVE
) -> int:
    """How many were marked as sent again by the redrive."""
    wanted = RedriveFilter(message_ids=message_ids, again=again)
    async with database.transaction() as session:
        chosen = await RedriveRepository(session).choose("s-1", wanted, limit=10)
        await RedriveRepository(session).mark([each.row for each in chosen], redrive_id)
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
    # Somebody has gone back in the log, in which the copy comes once more, too.
    later = first.discarded_at + timedelta(days=9999)
    await record(database, replace(first, discarded_at=later))
    assert await listed(database) == [(0, 3), (1, 1_003)]
    await record(database, its_second_end(first, discarded_at=later + timedelta(hours=1)))
    assert await listed(database) == [(1, 1_003)]


async def test_what_ended_before_is_listed_again_when_its_second_end_is_retracted(
    database: Database,
) -> None:
    first, other = an_undelivered(3), an_undelivered(4)
    await record(database, first, other)
    await redrive(database)
    second = its_second_end(first, producer_epoch="ab")
    await record(database, second, its_second_end(other, producer_epoch="cd"))
    assert await listed(database) == [(1, 1_004), (1, 1_003)]
    await record(database, a_retraction(second))
    assert await listed(database) == [(1, 1_004), (0, 3)]
    # What comes late of it changes nothing, and what its next worker discards does.
    await record(database, second)
    assert await listed(database) == [(1, 1_004), (0, 3)]
    await record(database, replace(second, producer_epoch="ef"))
    assert await listed(database) == [(1, 1_004), (1, 1_003)]


@pytest.mark.parametrize(
    ("retraction", "left"), [((2,), [1]), ((1,), [2]), ((1, 2), [0]), ((2, 1), [0])]
)
async def test_of_what_was_sent_again_twice_the_last_end_that_is_not_retracted_is_listed(
    database: Database, retraction: tuple[int, ...], left: list[int]
) -> None:
    first = an_undelivered(0)
    later = first.discarded_at + timedelta(hours=2)
    ends = [
        first,
        its_second_end(first, offset=1, producer_epoch="ab"),
        its_second_end(
            first, offset=2, producer_epoch="cd", discarded_at=later, retransmission="s" * 32
        ),
    ]
    for end, redrive_id in zip(ends, (REDRIVE, "s" * 32, "t" * 32), strict=True):
        await record(database, end)
        assert await redrive(database, redrive_id=redrive_id) == 1
    await record(database, *[a_retraction(replace(ends[each], partition=1)) for each in retraction])
    assert [offset for _, offset in await listed(database)] == left


async def test_what_one_producer_epoch_discarded_twice_is_retracted_at_once(
    database: Database,
) -> None:
    first = an_undelivered(0)
    later = first.discarded_at + timedelta(hours=2)
    second = its_second_end(first, offset=1, producer_epoch="ab")
    third = replace(second, offset=2, discarded_at=later, retransmission="s" * 32)
    for end, redrive_id in ((first, REDRIVE), (second, "s" * 32), (third, "t" * 32)):
        await record(database, end)
        assert await redrive(database, redrive_id=redrive_id) == 1
    await record(database, a_retraction(second))
    assert await listed(database) == [(0, 0)]


async def test_what_ended_again_is_not_chosen_for_a_retransmission_by_its_first_end(
    database: Database, postgres_url: str
) -> None:
    first = an_undelivered(3)
    await record(database, first)
    await redrive(database, "m-3")
    await record(database, its_second_end(first))
    async with database.transaction() as session:
        # Its copy was dropped, and how that had ended before was recorded after that.
        await session.execute(text("UPDATE undelivered SET redriven_at = NULL, redrive_id = NULL"))
    since, until = first.discarded_at, first.discarded_at + timedelta(days=1)
    wanted = Discards(subscription_id="s-1", since=since, until=until)
    slices = discards(libpq_url(postgres_url), (0, 1_000), wanted)
    assert [row[2] for rows in slices for row in rows] == [1_003]


async def until_one_waits(database: Database) -> None:
    waiting = text(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )
    async with asyncio.timeout(60):
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
