"""Reports at the command line that request their job first, against the real API."""

import asyncio
import json

import pytest

from angelia_client import AsyncAngelia
from app.cli.commands.analytics import undelivered
from app.cli.commands.ledgers import report
from app.cli.errors import CliError
from app.domain.job import Job, JobKind, JobResult
from app.storage.database import Database
from app.storage.insight.jobs import JobRepository
from app.storage.insight.ledgers import LedgerRepository
from tests.contract.logs import eventually
from tests.spark.taking import LEASE

TOPIC = "shop.orders"
OWNER = {"owner": {"source": "Plaintext", "id": "tests"}}


async def taken(database: Database) -> Job:
    """The job that a command requests, as a runner takes it."""
    jobs: list[Job] = []

    async def is_there() -> bool:
        async with database.transaction() as session:
            job = await JobRepository(session).take("r-1", LEASE)
        jobs.extend([] if job is None else [job])
        return bool(jobs)

    await eventually(is_there)
    return jobs[0]


async def test_a_watched_report_is_of_the_job_that_it_requested(
    url: str, database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(
            asyncio.to_thread(undelivered, watch=True, topic=TOPIC, api=url, as_json=True)
        )
        job = await taken(database)
        assert (job.kind, job.scope.topic) == (JobKind.UNDELIVERED_ANALYTICS, TOPIC)
        async with database.transaction() as session:
            assert await JobRepository(session).finish(job.claim, JobResult())
    found = json.loads(capsys.readouterr().out)
    assert (found["jobId"], found["counts"]) == (job.id, [])


async def test_a_watched_report_fails_with_its_job(url: str, database: Database) -> None:
    async def failed() -> None:
        job = await taken(database)
        async with database.transaction() as session:
            assert await JobRepository(session).fail(job.claim, "out of memory")

    asked = asyncio.to_thread(undelivered, watch=True, api=url)
    error, _ = await asyncio.gather(asked, failed(), return_exceptions=True)
    assert isinstance(error, CliError)
    assert error.message == "out of memory"


async def test_a_watched_ledger_report_has_its_new_entry(
    url: str, angelia: AsyncAngelia, database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    await angelia.topics.create(TOPIC)
    await angelia.subscriptions.create(TOPIC, "billing", "http://example.com/", settings=OWNER)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(
            asyncio.to_thread(report, TOPIC, "billing", watch=True, api=url, as_csv=True)
        )
        job = await taken(database)
        async with database.transaction() as session:
            assert await JobRepository(session).finish(job.claim, JobResult())
            assert await LedgerRepository(session).write(job.claim)
    header, line = capsys.readouterr().out.splitlines()
    assert header.startswith("no,to,carried,published")
    assert line.startswith("1,")
