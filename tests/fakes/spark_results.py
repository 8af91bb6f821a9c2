"""A Spark runner whose results a test chooses: it takes a waiting job, and ends it."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta

from app.domain.job import Job, JobResult
from app.postgres.urls import DatabaseUrl, libpq_url
from app.storage.database import Database
from app.storage.insight.jobs import JobRepository
from app.storage.spark.analysis_parts import write_part
from spark.store import DatabaseJobs

# The rows of each table of results.
Parts = Mapping[str, Sequence[Sequence[object]]]


async def taken(database: Database) -> Job:
    """Let a runner take the job that waits, and return the job."""
    async with database.transaction() as session:
        job = await JobRepository(session).take("r-1", timedelta(minutes=1))
    assert job is not None
    return job


async def ended(
    database: Database, url: DatabaseUrl, job: Job, *, parts: Parts, result: JobResult
) -> None:
    """Let the runner store these rows as the job's results, and end the job."""
    for table, rows in parts.items():
        await asyncio.to_thread(write_part, libpq_url(url), table, rows, claim=job.claim, part=0)
    # The store gets no notices. It would only use them to learn of changes of its jobs.
    store = DatabaseJobs(database, notices=None, runner="r-1")  # type: ignore[arg-type]  # not used
    assert await store.finish(job.claim, result)


async def finished(database: Database, url: DatabaseUrl, *, parts: Parts, result: JobResult) -> Job:
    """Let a runner take the job that waits, store these rows, and end the job; return the job."""
    job = await taken(database)
    await ended(database, url, job, parts=parts, result=result)
    return job
