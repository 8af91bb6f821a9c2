import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from threading import Event

import pytest

from app.domain.job import Job, JobKind, JobResult, JobScope, JobState
from app.storage.database import Database
from app.storage.insight.jobs import JobRepository
from app.storage.insight.spark_runners import SparkRunnerRepository
from app.storage.notices import JOBS, listen
from spark.errors import EngineLostError
from spark.lanes import LANES, Lane, lane_of
from spark.runner import ATTEMPTS_MAX, Engine, Runner, RunnerPace
from spark.steps import Begun
from spark.store import DatabaseJobs
from spark.work import WorkProgress
from tests.contract.logs import eventually
from tests.fakes.engine import FakeEngine
from tests.integration.storage.builders import NOON

BRISK = RunnerPace(
    report_every=timedelta(milliseconds=20),
    beat_every=timedelta(milliseconds=50),
    look_every=timedelta(milliseconds=100),
)
SCOPE = JobScope(start=NOON, end=NOON + timedelta(hours=1))


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@asynccontextmanager
async def running(
    database: Database, url: str, engine: Engine, *, pace: RunnerPace = BRISK
) -> AsyncIterator[asyncio.Event]:
    """A runner, which stops with the block."""
    stopping = asyncio.Event()
    async with listen(url, [JOBS]) as notices, asyncio.TaskGroup() as tasks:
        store = DatabaseJobs(database, notices, "r-1")
        tasks.create_task(Runner(store, engine, pace=pace).run(stopping))
        try:
            yield stopping
        finally:
            stopping.set()


async def requested(database: Database) -> str:
    async with database.transaction() as session:
        return (await JobRepository(session).add(JobKind.UNDELIVERED_ANALYTICS, SCOPE)).id


async def job(database: Database, job_id: str) -> Job:
    async with database.transaction() as session:
        return await JobRepository(session).get(job_id)


async def is_in(database: Database, job_id: str, state: JobState) -> Job:
    async def reached() -> bool:
        return (await job(database, job_id)).state is state

    await eventually(reached)
    return await job(database, job_id)


async def begun(engine: FakeEngine) -> None:
    assert await asyncio.to_thread(engine.begun.wait, 30)
    engine.begun.clear()


async def test_a_requested_job_is_done_and_its_result_kept(
    database: Database, postgres_url: str, engine: FakeEngine
) -> None:
    async with running(database, postgres_url, engine):
        job_id = await requested(database)
        await begun(engine)

        async def reported() -> bool:
            return (await job(database, job_id)).progress.done == 0.5

        await eventually(reported)
        engine.may_end.set()
        done = await is_in(database, job_id, JobState.DONE)
    assert done.result == engine.result
    assert (done.runner, done.attempt, done.progress.done) == ("r-1", 1, 1.0)
    assert [line.split(" ", 1)[1] for line in done.progress.log] == ["counting", "writing"]


async def test_a_job_that_breaks_fails_with_its_reason_and_the_next_is_taken(
    database: Database, postgres_url: str, engine: FakeEngine
) -> None:
    engine.error = ValueError("Traceback of a task:\n  ValueError: no such column")
    engine.may_end.set()
    async with running(database, postgres_url, engine):
        failed = await is_in(database, await requested(database), JobState.FAILED)
        engine.error = None
        await is_in(database, await requested(database), JobState.DONE)
    assert failed.reason == "ValueError: no such column"
    assert "no such column" in failed.progress.log[-1]


class StoppedSpark:
    """A Spark of which nothing is left to ask."""

    def __init__(self) -> None:
        self.asked = Event()

    def begun(self) -> int:
        return 0

    def since(self, first: int) -> Begun:
        if self.asked.is_set():
            return Begun(jobs=first)
        self.asked.set()
        raise AttributeError("'NoneType' object has no attribute 'sc'")


class WatchedEngine(FakeEngine):
    """Says how far it is by that Spark."""

    def __init__(self, spark: StoppedSpark) -> None:
        super().__init__()
        self._spark = spark

    def run(self, job: Job, progress: WorkProgress) -> JobResult:
        progress.watch(self._spark)
        return super().run(job, progress)


async def test_a_job_goes_on_when_nobody_knows_how_far_it_is(
    database: Database, postgres_url: str
) -> None:
    spark = StoppedSpark()
    engine = WatchedEngine(spark)
    async with running(database, postgres_url, engine):
        job_id = await requested(database)
        assert await asyncio.to_thread(spark.asked.wait, 30)
        engine.may_end.set()
        done = await is_in(database, job_id, JobState.DONE)
    assert (done.attempt, done.result) == (1, engine.result)


async def test_a_cancelled_job_is_stopped(
    database: Database, postgres_url: str, engine: FakeEngine
) -> None:
    # What Spark raises when its work is cancelled is no failure of the job.
    engine.stopped_by = RuntimeError("Job 3 cancelled part of cancelled job group")
    async with running(database, postgres_url, engine):
        job_id = await requested(database)
        await begun(engine)
        async with database.transaction() as session:
            await JobRepository(session).cancel(job_id)
        cancelled = await is_in(database, job_id, JobState.CANCELLED)
    assert engine.cancels >= 1
    assert cancelled.reason is None


async def test_a_runner_that_stops_leaves_its_job_to_another(
    database: Database, postgres_url: str, engine: FakeEngine
) -> None:
    async with running(database, postgres_url, engine) as stopping:
        job_id = await requested(database)
        await begun(engine)
        stopping.set()
    released = await job(database, job_id)
    assert (released.state, released.attempt, released.lost) == (JobState.REQUESTED, 1, 0)
    async with running(database, postgres_url, engine):
        done = await is_in(database, job_id, JobState.DONE)
    assert done.attempt == 2
    # The log goes on where the first attempt left it.
    steps = [line.split(" ", 1)[1] for line in done.progress.log]
    assert steps == ["counting", "counting", "writing"]


async def taken_by(database: Database, runner: str) -> Job:
    """A job whose runner reports at this moment is passed over: try again."""
    async with asyncio.timeout(30):
        while True:
            async with database.transaction() as session:
                if taken := await JobRepository(session).take(runner, timedelta(minutes=1)):
                    return taken


async def test_a_runner_whose_job_was_taken_by_another_stops_it_and_changes_nothing(
    database: Database, postgres_url: str, engine: FakeEngine
) -> None:
    slow = RunnerPace(report_every=timedelta(milliseconds=20), lease=timedelta(milliseconds=-1))
    async with running(database, postgres_url, engine, pace=slow):
        job_id = await requested(database)
        await begun(engine)
        taken = await taken_by(database, "r-2")
        assert taken.id == job_id
        assert await asyncio.to_thread(engine.may_end.wait, 30)
    assert await job(database, job_id) == taken


async def test_a_job_waits_again_when_the_database_failed_it_until_that_is_too_often(
    database: Database, postgres_url: str, engine: FakeEngine
) -> None:
    engine.error = RuntimeError("app.domain.errors.StorageUnavailableError: The database failed")
    engine.may_end.set()
    async with running(database, postgres_url, engine):
        failed = await is_in(database, await requested(database), JobState.FAILED)
    assert failed.attempt == ATTEMPTS_MAX


class BusyEngine:
    """Does jobs of all kinds at once; retransmissions do not end until they are to."""

    def __init__(self) -> None:
        self.has_begun, self.may_end = Event(), Event()

    def run(self, job: Job, progress: WorkProgress) -> JobResult:
        del progress
        if job.kind is JobKind.RETRANSMISSION:
            self.has_begun.set()
            assert self.may_end.wait(60)
        return JobResult()

    def cancel(self, job: Job) -> None:
        del job
        self.may_end.set()


async def test_short_jobs_pass_a_long_one_and_long_ones_wait_for_each_other(
    database: Database, postgres_url: str
) -> None:
    async def add(kind: JobKind) -> str:
        async with database.transaction() as session:
            return (await JobRepository(session).add(kind, SCOPE)).id

    engine = BusyEngine()
    async with running(database, postgres_url, engine):
        long, next_one = [await add(JobKind.RETRANSMISSION) for _ in range(2)]
        assert await asyncio.to_thread(engine.has_begun.wait, 30)
        for kind in (JobKind.LEDGER, JobKind.LEDGERS, JobKind.SIMULATION):
            await is_in(database, await add(kind), JobState.DONE)
        assert (await job(database, long)).state is JobState.RUNNING
        assert (await job(database, next_one)).state is JobState.REQUESTED
        engine.may_end.set()
        await is_in(database, next_one, JobState.DONE)


def test_each_kind_of_job_is_in_one_lane() -> None:
    assert sorted(kind for kinds in LANES.values() for kind in kinds) == sorted(JobKind)
    assert lane_of(JobKind.LEDGERS) is Lane.LEDGERS


async def test_a_runner_ends_when_its_spark_is_gone_and_its_job_is_taken_again(
    database: Database, postgres_url: str, engine: FakeEngine
) -> None:
    engine.error = EngineLostError("gone")
    engine.may_end.set()
    job_id = await requested(database)
    with pytest.raises(ExceptionGroup) as group:
        async with running(database, postgres_url, engine):
            await asyncio.Event().wait()
    assert group.group_contains(EngineLostError)
    assert (await job(database, job_id)).state is JobState.RUNNING


async def test_a_runner_is_seen_while_it_runs(
    database: Database, postgres_url: str, engine: FakeEngine
) -> None:
    async def live() -> bool:
        async with database.transaction() as session:
            return await SparkRunnerRepository(session).any_live(timedelta(minutes=1))

    assert not await live()
    async with running(database, postgres_url, engine):
        await eventually(live)
    assert not await live()
