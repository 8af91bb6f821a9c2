"""How many connections to PostgreSQL the tasks of a job have at a time."""

import asyncio

import psycopg
import pytest
from pyspark.sql import SparkSession

from spark.jobs import retransmission
from tests.contract.logs import eventually
from tests.spark.retransmissions import EMBEDDED, Bench
from tests.spark.small import TASKS_MAX

# The first test starts Spark, on a machine that may be busy.
pytestmark = pytest.mark.timeout(900)

PATIENCE_S = 400.0
# Of each partition of the topic, one task reads messages, and writes which are chosen.
PARTITIONS = 3
WRITTEN = "retransmission_runs"
# How many tasks wait until they may write.
WAITING = f"""
SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database
WHERE NOT granted AND relation = '{WRITTEN}'::regclass AND datname = current_database()
"""  # noqa: S608 - the name of a table
# How many connections tasks have. While they run, the job itself has none.
CONNECTIONS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'angelia-spark'
"""


@EMBEDDED
async def test_no_more_tasks_run_than_the_settings_allow_each_with_two_connections(
    bench: Bench,
) -> None:
    await bench.publish(*(b"%d" % number for number in range(60)))
    await bench.asked()
    work = bench.work(await bench.taken())
    async with (
        await psycopg.AsyncConnection.connect(bench.url, autocommit=True) as looking,
        await psycopg.AsyncConnection.connect(bench.url) as blocking,
    ):
        await blocking.execute(f"LOCK TABLE {WRITTEN} IN SHARE MODE")
        doing = asyncio.create_task(asyncio.to_thread(retransmission.run, bench.spark, work))

        async def all_wait() -> bool:
            if doing.done():
                await doing
            tasks = running_and_all(bench.spark)
            return await number(looking, WAITING) >= TASKS_MAX <= tasks[0]

        await eventually(all_wait, seconds=PATIENCE_S)
        connections = await number(looking, CONNECTIONS)
        tasks = running_and_all(bench.spark)
        await blocking.rollback()
        await doing
    assert tasks == (TASKS_MAX, PARTITIONS)
    assert TASKS_MAX <= connections <= 2 * TASKS_MAX


async def number(looking: psycopg.AsyncConnection, query: str) -> int:
    [(count,)] = await (await looking.execute(query)).fetchall()
    return int(count)


def running_and_all(spark: SparkSession) -> tuple[int, int]:
    """How many tasks run of the stage that runs, and how many the stage has; none runs: 0, 0.

    Spark counts tasks some time after they have started.
    """
    tracker = spark.sparkContext.statusTracker()
    found = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return next(((stage.numActiveTasks, stage.numTasks) for stage in found if stage), (0, 0))
