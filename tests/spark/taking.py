"""Jobs as runners take them."""

from datetime import timedelta
from typing import Final

from app.domain.job import Job, JobKind, JobScope
from app.storage.database import Database
from app.storage.insight.jobs import JobRepository

LEASE: Final = timedelta(minutes=5)


async def taken(database: Database, kind: JobKind, scope: JobScope) -> Job:
    """A job that was asked for, and that a runner has."""
    async with database.transaction() as session:
        jobs = JobRepository(session)
        await jobs.add(kind, scope)
        job = await jobs.take("r-1", LEASE)
    assert job is not None
    return job


async def taken_again(database: Database, job: Job) -> Job:
    """The same, as another runner has it."""
    async with database.transaction() as session:
        assert await JobRepository(session).release(job.claim)
        again = await JobRepository(session).take("r-2", LEASE)
    assert again is not None
    return again
