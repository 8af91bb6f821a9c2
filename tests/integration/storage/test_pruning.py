import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from app.domain.circuit import SharedCircuit
from app.domain.discards.undelivered import UndeliveredFilter
from app.domain.message import Partition
from app.domain.names import group_of
from app.services.catalogue.groups import GroupService
from app.services.pruning import Pruner
from app.storage.catalogue.changes import ChangeFeed
from app.storage.catalogue.groups import GroupRepository
from app.storage.database import Database
from app.storage.discards.pages import PAGE_MAX
from app.storage.discards.undelivered import DROP_MAX, UndeliveredRepository
from app.storage.health.statuses import StatusRepository
from app.storage.health.workers import WorkerRepository
from app.storage.runtime.circuits import CircuitRepository
from tests.integration.storage.builders import (
    TOPIC,
    a_load,
    a_worker,
    add_subscription,
    add_topic,
    an_undelivered,
    beat_in,
)

STREAM = Partition("angelia.undelivered", 0)
MONTH = timedelta(days=30)
DAY = timedelta(days=1)


async def record(database: Database, *ages: timedelta) -> None:
    now = datetime.now(UTC)
    discards = [an_undelivered(n, discarded_at=now - age) for n, age in enumerate(ages)]
    async with database.transaction() as session:
        await UndeliveredRepository(session).record(discards, STREAM, len(ages))


async def kept(database: Database) -> list[int]:
    async with database.transaction() as session:
        asked = UndeliveredFilter(subscription_id="s-1")
        page = await UndeliveredRepository(session).page(asked, limit=100)
    return [item.offset for item in page.items]


async def test_discards_are_kept_for_their_time_and_dropped_after_it(database: Database) -> None:
    await record(database, MONTH + DAY, MONTH + DAY, MONTH - DAY, DAY)
    await Pruner(database, undelivered_kept=MONTH).prune()
    assert await kept(database) == [3, 2]


async def test_circuits_that_nobody_changed_for_a_day_are_dropped(database: Database) -> None:
    names = ("old", "new")
    for name in names:
        async with database.transaction() as session:
            closed = SharedCircuit(
                name=name,
                number=0,
                open=False,
                opens_in=timedelta(0),
                since=datetime.now(UTC),
                reason="",
            )
            await CircuitRepository(session).write(closed)
    async with database.transaction() as session:
        day_before = "SET changed_at = now() - interval '25 h', opens_at = now() - interval '25 h'"
        await session.execute(text(f"UPDATE circuits {day_before} WHERE name = 'old'"))
    await Pruner(database, undelivered_kept=MONTH).prune()
    async with database.transaction() as session:
        assert [each.name for each in await CircuitRepository(session).read(names)] == ["new"]


async def test_discards_of_all_topics_are_dropped_at_their_time_whenever_they_were_recorded(
    database: Database,
) -> None:
    now = datetime.now(UTC)
    first = [an_undelivered(n, discarded_at=now - MONTH - DAY) for n in range(DROP_MAX)]
    others = [replace(each, topic=f"shop.{each.offset}", subscription_id="s-2") for each in first]
    again = [replace(each, discarded_at=now - DAY) for each in first]
    async with database.transaction() as session:
        repository = UndeliveredRepository(session)
        for end, discards in enumerate((first, others, again), 1):
            await repository.record(discards, STREAM, end)
    await Pruner(database, undelivered_kept=MONTH).prune()
    async with database.transaction() as session:
        page = await UndeliveredRepository(session).page(UndeliveredFilter(), limit=PAGE_MAX)
    assert {each.subscription_id for each in page.items} == {"s-1"}
    assert len(page.items) == len(again)


async def test_more_discards_than_one_statement_drops_are_all_dropped(database: Database) -> None:
    await record(database, *[MONTH + DAY] * (2 * DROP_MAX + 1), DAY)
    await Pruner(database, undelivered_kept=MONTH).prune()
    assert await kept(database) == [2 * DROP_MAX + 1]


async def test_a_worker_that_died_long_ago_is_forgotten_with_its_loads(database: Database) -> None:
    subscription = await add_subscription(database)
    async with database.transaction() as session:
        await beat_in(session, a_worker("w-dead"))
        await beat_in(session, a_worker("w-live"))
        loads = [a_load(subscription.id, "w-dead"), a_load(subscription.id, "w-live")]
        await StatusRepository(session).write([], loads)
        for table, key in (("workers", "id"), ("subscription_loads", "worker_id")):
            old = f"UPDATE {table} SET seen_at = now() - interval '1 d' WHERE {key} = 'w-dead'"  # noqa: S608 - names from above
            await session.execute(text(old))
    await Pruner(database, undelivered_kept=MONTH).prune()
    async with database.transaction() as session:
        assert [worker.id for worker in await WorkerRepository(session).live(2 * DAY)] == ["w-live"]
        loads = await StatusRepository(session).loads(subscription.id, 2 * DAY)
        assert [load.worker_id for load in loads] == ["w-live"]


async def test_a_group_is_not_deleted_while_a_topic_of_it_is_made(database: Database) -> None:
    group = group_of(TOPIC)
    async with database.transaction() as session:
        await GroupRepository(session).add(group)
    async with database.transaction() as session:
        await ChangeFeed(session).next_number()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await GroupService(database).delete(group)
        await add_topic(session)
