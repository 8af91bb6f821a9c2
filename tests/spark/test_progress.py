"""How far jobs are, as a real Spark says it."""

import asyncio
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark import TaskContext
from pyspark.cloudpickle import register_pickle_by_value
from pyspark.sql import SparkSession

from app.domain.job import Job, JobKind, JobState
from app.storage.database import Database
from app.storage.insight.jobs import JobRepository
from app.storage.notices import JOBS, listen
from spark.runner import Runner
from spark.steps import FIRST_SHARE
from spark.store import DatabaseJobs
from spark.tasks import SessionJobs
from spark.work import WorkProgress
from tests.contract.logs import eventually
from tests.integration.jobs.test_runner import BRISK
from tests.integration.storage.builders import an_undelivered
from tests.spark.test_undelivered_job import DAY, engine_of, is_waiting_for_the_lock, recorded

# The first test starts Spark, on a machine that may be busy.
pytestmark = pytest.mark.timeout(400)


# Spark's workers import nothing of tests: the current directory is not on their path.
register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]  # PySpark has none


class HeldUp:
    """The last partition waits until somebody opens a pipe."""

    def __init__(self, pipe: Path, last: int) -> None:
        self._pipe = str(pipe)
        self._last = last

    def __call__(self, rows: Iterable[Any]) -> None:
        del rows
        task = TaskContext.get()
        if task is not None and task.partitionId() == self._last:
            with Path(self._pipe).open("rb") as pipe:
                pipe.read()


def held_up(spark: SparkSession, group: str, pipe: Path) -> None:
    spark.sparkContext.setJobGroup(group, group)
    spark.range(0, 4, 1, 4).foreachPartition(HeldUp(pipe, 3))


async def test_a_step_is_as_far_as_its_tasks_are_completed(
    spark: SparkSession, tmp_path: Path
) -> None:
    pipe, progress, jobs = tmp_path / "pipe", WorkProgress(), SessionJobs(spark, "ours")
    os.mkfifo(pipe)
    spark.range(3).count()
    progress.watch(jobs)
    progress.step("reading", done=0.2, until=0.8)

    async def three_of_four() -> bool:
        await asyncio.to_thread(progress.look)
        return progress.now().done == pytest.approx(0.2 + 0.6 * FIRST_SHARE * 3 / 4)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(asyncio.to_thread(held_up, spark, "ours", pipe))
        try:
            await eventually(three_of_four, seconds=60)
        finally:
            # Whoever reads it goes on; this waits for it to do so.
            await asyncio.to_thread(pipe.write_bytes, b"")
    # What another job has Spark do meanwhile is nothing of this one.
    spark.range(3).count()
    progress.look()
    assert progress.now().done == pytest.approx(0.2 + 0.6 * FIRST_SHARE)
    progress.step("writing", done=0.8, until=0.9)
    progress.look()
    assert progress.now().done == pytest.approx(0.8)


async def test_who_asks_for_a_job_hears_how_far_it_is_within_its_step(
    spark: SparkSession, database: Database, postgres_url: str, tmp_path: Path
) -> None:
    await recorded(database, [an_undelivered(offset) for offset in range(50)])
    async with database.transaction() as session:
        job_id = (await JobRepository(session).add(JobKind.UNDELIVERED_ANALYTICS, DAY)).id

    async def job() -> Job:
        async with database.transaction() as session:
            return await JobRepository(session).get(job_id)

    async def is_in_the_midst() -> bool:
        progress = (await job()).progress
        # Its first Spark job is done, which has written Parquet.
        return progress.step == "Counting undelivered messages" and 0.5 < progress.done < 0.6

    async def done() -> bool:
        return (await job()).state is JobState.DONE

    stopping = asyncio.Event()
    async with listen(postgres_url, [JOBS]) as notices, asyncio.TaskGroup() as tasks:
        store = DatabaseJobs(database, notices, "r-1")
        runner = Runner(store, engine_of(spark, postgres_url, tmp_path), pace=BRISK)
        async with await psycopg.AsyncConnection.connect(postgres_url) as blocking:
            await blocking.execute("LOCK TABLE analytics_undelivered IN SHARE MODE")
            tasks.create_task(runner.run(stopping))
            await eventually(lambda: is_waiting_for_the_lock(database), seconds=180)
            await eventually(is_in_the_midst, seconds=60)
        await eventually(done, seconds=180)
        stopping.set()
    ended = await job()
    assert ended.progress.done == 1.0
    assert any("Finding clusters" in line for line in ended.progress.log)
