"""The runner as a process of its own, killed in the middle of a job."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import psutil
import psycopg
import pytest
from pyspark.sql import SparkSession

from app.config import Settings
from app.domain.job import Job, JobKind, JobState
from app.domain.replay.retransmission import RetransmissionState
from app.services.insight.analytics import AnalyticsService, Question
from app.storage.database import Database
from app.storage.insight.jobs import JobRepository
from app.storage.notices import JOBS, listen
from spark.engine import SparkEngine
from spark.runner import Runner
from spark.store import DatabaseJobs
from tests.architecture.tree import ROOT
from tests.contract.harness import PostgresHarness
from tests.contract.logs import eventually
from tests.integration.storage.builders import an_undelivered
from tests.spark.retransmissions import a_bench, places
from tests.spark.small import FRUGAL, kept_in
from tests.spark.test_undelivered_job import DAY, engine_of, is_waiting_for_the_lock, recorded

# The first test starts Spark, on a machine that may be busy.
pytestmark = [pytest.mark.timeout(1000), pytest.mark.long]

PATIENCE_S = 450.0


@asynccontextmanager
async def runner(
    url: str, place: Path, defaults: Mapping[str, str] = FRUGAL, /, **more: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A runner process with settings of its own; after the block it and its Spark are gone.

    `defaults` are Spark's, beside FRUGAL.
    """
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ANGELIA_")} | {
        "ANGELIA_DATABASE_URL": url,
        "ANGELIA_HOME": str(place),
        "ANGELIA_SPARK_MASTER": "local[2]",
        "ANGELIA_SPARK_MEMORY": "512m",
        "SPARK_CONF_DIR": str(place),
        **more,
    }
    conf = kept_in(place, {**FRUGAL, **defaults})
    lines = "\n".join(f"{name} {value}" for name, value in conf.items())
    (place / "spark-defaults.conf").write_text(lines)
    with (place / "runner.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "spark"), cwd=ROOT, env=environment, stdout=log, stderr=log
        )
    family = psutil.Process(process.pid)
    below: list[psutil.Process] = []
    try:
        yield process
        below = family.children(recursive=True) if process.returncode is None else []
    finally:
        if process.returncode is None:
            process.terminate()
        async with asyncio.timeout(30):
            await process.wait()
        assert not psutil.wait_procs(below, timeout=30)[1]


# test_retransmission_job.py has it shorter: without a runner of its own.
async def test_a_runner_killed_while_it_chooses_messages_leaves_nothing_of_its_choice(
    spark: SparkSession, database: Database, postgres_url: str, tmp_path: Path
) -> None:
    harness = PostgresHarness(postgres_url)
    async with a_bench(spark, database, harness, url=postgres_url, output=tmp_path) as bench:
        positions = await bench.publish(*(b"%d" % number for number in range(50)))
        asked = await bench.asked()
        async with await psycopg.AsyncConnection.connect(postgres_url) as blocking:
            # Of the choice nothing can be written: there it is killed.
            await blocking.execute("LOCK TABLE retransmission_runs IN SHARE MODE")
            namespace = {"ANGELIA_NAMESPACE": harness.namespace}
            async with runner(postgres_url, tmp_path, **namespace) as first:
                waiting = partial(is_waiting_for_the_lock, database, "retransmission_runs")
                await eventually(waiting, seconds=PATIENCE_S)
                first.kill()
                await first.wait()

        async def is_chosen() -> bool:
            return (await bench.seen(asked)).state is RetransmissionState.SENDING

        stopping = asyncio.Event()
        async with listen(postgres_url, [JOBS]) as notices, asyncio.TaskGroup() as tasks:
            settings = Settings(spark_output=str(tmp_path), namespace=harness.namespace)
            engine = SparkEngine(settings, database_url=postgres_url, start=lambda _: spark)
            second = Runner(DatabaseJobs(database, notices, "r-2"), engine)
            tasks.create_task(second.run(stopping))
            await eventually(is_chosen, seconds=PATIENCE_S)
            stopping.set()
        seen = await bench.seen(asked)
        assert (seen.attempt, seen.counts.matched) == (2, 50)
        assert await bench.places(asked) == places(positions)


async def test_a_runner_killed_in_the_middle_of_a_job_changes_nothing_of_its_result(
    spark: SparkSession, database: Database, postgres_url: str, tmp_path: Path
) -> None:
    await recorded(database, [an_undelivered(offset) for offset in range(50)])
    async with database.transaction() as session:
        job_id = (await JobRepository(session).add(JobKind.UNDELIVERED_ANALYTICS, DAY)).id

    async def job() -> Job:
        async with database.transaction() as session:
            return await JobRepository(session).get(job_id)

    async def done() -> bool:
        return (await job()).state is JobState.DONE

    async with await psycopg.AsyncConnection.connect(postgres_url) as blocking:
        # It cannot write its result: there it is killed, and its task is left behind in the wait.
        await blocking.execute("LOCK TABLE analytics_undelivered IN SHARE MODE")
        async with runner(postgres_url, tmp_path) as first:
            await eventually(lambda: is_waiting_for_the_lock(database), seconds=PATIENCE_S)
            below = psutil.Process(first.pid).children(recursive=True)
            first.kill()
            await first.wait()
    stopping = asyncio.Event()
    async with listen(postgres_url, [JOBS]) as notices, asyncio.TaskGroup() as tasks:
        second = Runner(
            DatabaseJobs(database, notices, "r-2"), engine_of(spark, postgres_url, tmp_path)
        )
        tasks.create_task(second.run(stopping))
        await eventually(done, seconds=PATIENCE_S)
        stopping.set()
    assert below
    assert not psutil.wait_procs(below, timeout=60)[1]
    ended = await job()
    assert (ended.attempt, ended.lost) == (2, 1)
    assert ended.result.counts == {"messages": 50, "counts": 1, "clusters": 1}
    _, counts = await AnalyticsService(database).undelivered(Question(limit=10))
    assert [count.messages for count in counts] == [50]
