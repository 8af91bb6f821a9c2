import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from app.domain.errors import JobEndedError, JobNotFoundError, JobQueueFullError
from app.domain.job import (
    LOST_MAX,
    Claim,
    ClaimState,
    Job,
    JobKind,
    JobProgress,
    JobResult,
    JobScope,
    JobState,
)
from app.storage.database import Database
from app.storage.insight.jobs import WAITING_MAX, JobRepository
from app.storage.insight.spark_runners import SparkRunnerRepository
from tests.integration.storage.builders import NOON

LEASE = timedelta(minutes=1)
RAN_OUT = timedelta(seconds=-1)
DAY = JobScope(start=NOON - timedelta(days=1), end=NOON)


async def requested(database: Database, scope: JobScope = DAY) -> Job:
    async with database.transaction() as session:
        return await JobRepository(session).add(JobKind.UNDELIVERED_ANALYTICS, scope)


async def taken(database: Database, *, runner: str = "r-1", lease: timedelta = LEASE) -> Job | None:
    async with database.transaction() as session:
        return await JobRepository(session).take(runner, lease)


async def claimed(database: Database, *, lease: timedelta = LEASE) -> Claim:
    job = await taken(database, lease=lease)
    assert job is not None
    return job.claim


async def found(database: Database, job_id: str) -> Job:
    async with database.transaction() as session:
        return await JobRepository(session).get(job_id)


async def done(database: Database, scope: JobScope = DAY) -> Job:
    await requested(database, scope)
    claim = await claimed(database)
    async with database.transaction() as session:
        assert await JobRepository(session).finish(claim, JobResult())
    return await found(database, claim.job_id)


async def test_a_job_comes_back_as_it_was_requested(database: Database) -> None:
    scope = replace(DAY, topic="shop.orders", subscription="billing")
    job = await requested(database, scope)
    assert job.scope == scope
    assert job.state is JobState.REQUESTED
    assert await found(database, job.id) == job


async def test_a_job_that_is_not_there_is_said_not_to_be(database: Database) -> None:
    with pytest.raises(JobNotFoundError):
        await found(database, "none")


async def test_who_does_one_job_alone_takes_that_and_leaves_the_others(database: Database) -> None:
    first, second = [await requested(database) for _ in range(2)]

    async def of(kind: JobKind, job_id: str | None = None) -> str | None:
        async with database.transaction() as session:
            job = await JobRepository(session).take("r-1", LEASE, kinds=[kind], job_id=job_id)
        return None if job is None else job.id

    assert await of(JobKind.RETRANSMISSION) is None
    assert await of(JobKind.RETRANSMISSION, first.id) is None
    assert await of(JobKind.UNDELIVERED_ANALYTICS, second.id) == second.id
    assert await of(JobKind.UNDELIVERED_ANALYTICS, second.id) is None
    assert await of(JobKind.UNDELIVERED_ANALYTICS) == first.id


async def test_jobs_are_taken_in_the_order_of_their_requests(database: Database) -> None:
    jobs = [await requested(database) for _ in range(3)]
    order = [await claimed(database) for _ in range(3)]
    assert [claim.job_id for claim in order] == [job.id for job in jobs]
    assert await taken(database) is None


async def test_runners_that_ask_at_once_never_get_the_same_job(database: Database) -> None:
    jobs = [await requested(database) for _ in range(4)]
    answers = await asyncio.gather(*(taken(database, runner=f"r-{n}") for n in range(8)))
    assert sorted(job.id for job in answers if job) == sorted(job.id for job in jobs)


async def test_a_job_of_another_version_is_left_to_it(database: Database) -> None:
    job = await requested(database)
    async with database.transaction() as session:
        connection = await session.connection()
        await connection.exec_driver_sql("UPDATE spark_jobs SET kind = 'MINING'")
    assert await taken(database) is None
    async with database.transaction() as session:
        assert await JobRepository(session).newest(limit=10) == []
        with pytest.raises(JobNotFoundError):
            await JobRepository(session).get(job.id)


async def test_a_job_whose_runner_is_gone_is_taken_again_and_the_first_taker_is_out(
    database: Database,
) -> None:
    await requested(database)
    first = await claimed(database, lease=RAN_OUT)
    second = await claimed(database)
    assert second == Claim(job_id=first.job_id, attempt=2)
    async with database.transaction() as session:
        jobs = JobRepository(session)
        assert await jobs.report(first, JobProgress(), LEASE) is ClaimState.LOST
        assert not await jobs.finish(first, JobResult(counts={"messages": 1}))
        assert not await jobs.fail(first, "it broke")
        assert not await jobs.release(first)
        assert not await jobs.cancelled(first)
    job = await found(database, first.job_id)
    assert (job.state, job.claim, job.lost) == (JobState.RUNNING, second, 1)


async def test_a_job_that_takes_its_runners_down_fails_in_the_end(database: Database) -> None:
    job = await requested(database)
    for _ in range(LOST_MAX):
        assert (await claimed(database, lease=RAN_OUT)).job_id == job.id
    assert await taken(database) is None
    ended = await found(database, job.id)
    assert ended.state is JobState.FAILED
    assert "3 runners" in (ended.reason or "")


async def test_what_a_runner_reports_is_stored_and_keeps_the_job_its_own(
    database: Database,
) -> None:
    await requested(database)
    claim = await claimed(database, lease=RAN_OUT)
    progress = JobProgress(step="counting", done=0.5, log=("one\0", "two"))
    async with database.transaction() as session:
        assert await JobRepository(session).report(claim, progress, LEASE) is ClaimState.KEPT
    assert await taken(database) is None
    job = await found(database, claim.job_id)
    assert job.progress == replace(progress, log=("one\N{REPLACEMENT CHARACTER}", "two"))


async def test_a_waiting_job_is_cancelled_at_once_and_never_taken(database: Database) -> None:
    job = await requested(database)
    async with database.transaction() as session:
        assert (await JobRepository(session).cancel(job.id)).state is JobState.CANCELLED
        assert (await JobRepository(session).cancel(job.id)).state is JobState.CANCELLED
    assert await taken(database) is None


async def test_a_running_job_is_cancelled_by_its_runner(database: Database) -> None:
    await requested(database)
    claim = await claimed(database)
    async with database.transaction() as session:
        jobs = JobRepository(session)
        asked = await jobs.cancel(claim.job_id)
        assert (asked.state, asked.cancel_requested) == (JobState.RUNNING, True)
        assert await jobs.report(claim, JobProgress(), LEASE) is ClaimState.CANCELLED
        assert await jobs.cancelled(claim)
    assert (await found(database, claim.job_id)).state is JobState.CANCELLED


async def test_a_cancelled_job_whose_runner_is_gone_is_not_taken_again(database: Database) -> None:
    job = await requested(database)
    await claimed(database, lease=RAN_OUT)
    async with database.transaction() as session:
        await JobRepository(session).cancel(job.id)
    assert await taken(database) is None
    assert (await found(database, job.id)).state is JobState.CANCELLED


async def test_a_job_that_is_done_cannot_be_cancelled(database: Database) -> None:
    job = await done(database)
    async with database.transaction() as session:
        with pytest.raises(JobEndedError):
            await JobRepository(session).cancel(job.id)


async def test_a_released_job_waits_again_and_its_runner_does_not_count_as_lost(
    database: Database,
) -> None:
    await requested(database)
    claim = await claimed(database)
    async with database.transaction() as session:
        assert await JobRepository(session).release(claim)
    again = await taken(database)
    assert again is not None
    assert (again.attempt, again.lost) == (2, 0)


async def test_only_so_many_jobs_may_wait(database: Database) -> None:
    async with database.transaction() as session:
        for _ in range(WAITING_MAX):
            await JobRepository(session).add(JobKind.UNDELIVERED_ANALYTICS, DAY)
    with pytest.raises(JobQueueFullError):
        await requested(database)


async def test_the_last_job_done_is_one_that_has_what_is_asked_for(database: Database) -> None:
    everything = await done(database)
    orders = await done(database, replace(DAY, topic="shop.orders"))
    await requested(database)
    async with database.transaction() as session:
        jobs, kind = JobRepository(session), JobKind.UNDELIVERED_ANALYTICS
        assert (await jobs.last_done(kind, None, None)).id == everything.id
        assert (await jobs.last_done(kind, "shop.orders", "billing")).id == orders.id
        assert (await jobs.last_done(kind, "shop.others", None)).id == everything.id


async def test_jobs_are_dropped_when_they_ended_long_ago(database: Database) -> None:
    ended, waiting = await done(database), await requested(database)
    async with database.transaction() as session:
        assert await JobRepository(session).drop_older(timedelta(hours=1)) == 0
        assert await JobRepository(session).drop_older(timedelta(0)) == 1
        left = await JobRepository(session).newest(limit=10)
    assert ended.id != waiting.id
    assert [job.id for job in left] == [waiting.id]


async def test_a_runner_lives_as_long_as_it_beats(database: Database) -> None:
    async with database.transaction() as session:
        runners = SparkRunnerRepository(session)
        assert not await runners.any_live(LEASE)
        await runners.beat("r-1")
        await runners.beat("r-1")
        assert await runners.any_live(LEASE)
        assert not await runners.any_live(timedelta(0))
        await runners.remove("r-1")
        assert not await runners.any_live(LEASE)
