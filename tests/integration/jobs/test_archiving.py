"""When the archive is asked for, on a real PostgreSQL."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from sqlalchemy import update

from app.domain.catalogue.offline_storage import OfflineStorage
from app.domain.job import Job, JobKind, JobResult, JobScope
from app.services.insight.archives import ArchiveSchedule
from app.storage.catalogue.topics import TopicRepository
from app.storage.database import Database
from app.storage.insight.jobs import JobRepository
from app.storage.tables import JobRow
from tests.integration.storage.builders import NOON, TOPIC, add_topic

LEASE = timedelta(minutes=5)


async def an_archived_topic(database: Database) -> None:
    async with database.transaction() as session:
        topic = await add_topic(session)
        storage = OfflineStorage(enabled=True, days=1)
        await TopicRepository(session).update(replace(topic, offline_storage=storage))


async def asked(database: Database) -> list[Job]:
    async with database.transaction() as session:
        return list(await JobRepository(session).newest(limit=10))


async def ended(database: Database, hours_ago: int = 0) -> None:
    """A runner has done what waits, and it was asked for so long ago."""
    async with database.transaction() as session:
        job = await JobRepository(session).take("r-1", LEASE)
        assert job is not None
        assert await JobRepository(session).finish(job.claim, JobResult())
        earlier = JobRow.requested_at - timedelta(hours=hours_ago)
        await session.execute(update(JobRow).values(requested_at=earlier))


async def test_it_is_asked_for_once_an_hour_however_many_look(database: Database) -> None:
    await an_archived_topic(database)
    schedules = [ArchiveSchedule(database) for _ in range(3)]
    now = datetime.now(UTC)
    await asyncio.gather(*(each.look(now) for each in schedules))
    [job] = await asked(database)
    assert (job.kind, job.scope.topic) == (JobKind.ARCHIVE, None)
    # As long as it waits there is no other.
    await schedules[0].look(now + timedelta(hours=3))
    assert len(await asked(database)) == 1
    await ended(database)
    await schedules[0].look(job.requested_at)
    assert len(await asked(database)) == 1
    await schedules[0].look(job.requested_at + timedelta(hours=1))
    assert len(await asked(database)) == 2


async def test_what_is_asked_of_one_topic_does_not_stand_for_all(database: Database) -> None:
    await an_archived_topic(database)
    scope = JobScope(start=NOON - timedelta(hours=1), end=NOON, topic=TOPIC)
    async with database.transaction() as session:
        await JobRepository(session).add(JobKind.ARCHIVE, scope)
    await ArchiveSchedule(database).look()
    assert {job.scope.topic for job in await asked(database)} == {TOPIC, None}


async def test_nothing_is_asked_for_where_nothing_is_archived(database: Database) -> None:
    async with database.transaction() as session:
        await add_topic(session)
    await ArchiveSchedule(database).look()
    assert await asked(database) == []


async def test_a_full_queue_is_tried_again_the_next_time(database: Database) -> None:
    await an_archived_topic(database)
    scope = JobScope(start=NOON - timedelta(hours=1), end=NOON)
    async with database.transaction() as session:
        for _ in range(100):
            await JobRepository(session).add(JobKind.UNDELIVERED_ANALYTICS, scope)
    schedule = ArchiveSchedule(database)
    await schedule.look()
    await ended(database)
    await schedule.look()
    [newest, *_] = await asked(database)
    assert newest.kind is JobKind.ARCHIVE
