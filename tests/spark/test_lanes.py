"""Short jobs beside long ones, on one Spark with two cores."""

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

from app.config import Settings
from app.domain.insight.ledger import Sums
from app.domain.job import JobState
from app.storage.database import Database
from app.storage.notices import JOBS, listen
from spark.engine import SparkEngine
from spark.lanes import long_tasks_max
from spark.runner import Runner
from spark.store import DatabaseJobs
from tests.contract.harness import PostgresHarness
from tests.contract.logs import eventually
from tests.integration.jobs.test_runner import BRISK
from tests.integration.storage.builders import TOPIC
from tests.spark.ledgers import Books
from tests.spark.retransmissions import Bench, a_bench
from tests.spark.test_offline_retransmission import (
    AGAIN,
    FREED,
    HELD,
    SINCE,
    UNTIL,
    a_record,
    at_ms,
    is_held,
    standing,
    with_target,
)
from tests.spark.test_runner_process import PATIENCE_S

# The first test starts Spark, on a machine that may be busy.
pytestmark = pytest.mark.timeout(400)


async def in_each_partition(bench: Bench) -> Sequence[int]:
    """Publish a message into each partition; how many each has."""
    keys = [b"%d" % number for number in range(12)]
    records = [a_record("1", at_ms(SINCE), key) for key in keys]
    positions = await bench.log.append(TOPIC, records)
    indexes = [position.partition.index for position in positions]
    assert set(indexes) == {0, 1, 2}
    return [indexes.count(index) for index in range(3)]


async def test_an_entry_of_a_ledger_is_made_beside_a_job_that_does_not_end(
    spark: SparkSession, database: Database, postgres_url: str, tmp_path: Path
) -> None:
    # There are more partitions to publish than cores.
    assert long_tasks_max(spark) == 1
    harness = PostgresHarness(postgres_url)
    async with a_bench(spark, database, harness, url=postgres_url, output=tmp_path) as bench:
        await bench.change(start=dict.fromkeys(range(3), 0))
        service, books = await with_target(bench), Books(bench)
        for index, count in enumerate(await in_each_partition(bench)):
            await books.passed(index, count, delivered=count)
        await service.request(TOPIC, AGAIN, since=SINCE, until=UNTIL)
        stopping = asyncio.Event()
        autonomous = psycopg.AsyncConnection.connect(postgres_url, autocommit=True)
        async with await autonomous as holding, listen(postgres_url, [JOBS]) as notices:
            await holding.execute(HELD)
            await holding.execute("SELECT pg_advisory_lock(77)")
            settings = Settings(spark_output=str(tmp_path), namespace=harness.namespace)
            engine = SparkEngine(settings, database_url=postgres_url, start=lambda _: spark)
            runner = Runner(DatabaseJobs(database, notices, "r-1"), engine, pace=BRISK)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(runner.run(stopping))
                await eventually(partial(is_held, holding), seconds=PATIENCE_S)
                await books.asked()

                async def is_made() -> bool:
                    return len(await books.entries()) > 0

                await eventually(is_made, seconds=PATIENCE_S)
                assert (await standing(service)).job.state is JobState.RUNNING
                await holding.execute("SELECT pg_advisory_unlock(77)")
                await holding.execute(FREED)

                async def is_published() -> bool:
                    return (await standing(service)).job.state is JobState.DONE

                await eventually(is_published, seconds=PATIENCE_S)
                stopping.set()
        assert [entry.sums for entry in await books.entries()] == [Sums(published=12, delivered=12)]
        assert (await standing(service)).done.written == 12
