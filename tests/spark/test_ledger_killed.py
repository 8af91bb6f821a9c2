"""The runner as a process of its own, killed while it makes an entry of a ledger."""

import asyncio
from functools import partial
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

from app.config import Settings
from app.domain.insight.ledger import Sums
from app.storage.database import Database
from app.storage.discards.undelivered import UndeliveredRepository
from app.storage.notices import JOBS, listen
from spark.engine import SparkEngine
from spark.runner import Runner
from spark.store import DatabaseJobs
from tests.contract.harness import PostgresHarness
from tests.contract.logs import eventually
from tests.integration.storage.builders import TOPIC
from tests.spark.ledgers import Books
from tests.spark.retransmissions import STREAM, a_bench
from tests.spark.test_runner_process import PATIENCE_S, runner
from tests.spark.test_undelivered_job import is_waiting_for_the_lock

# The first test starts Spark, on a machine that may be busy.
# The jobs' own files have it shorter, and test_runner_process.py kills one runner for all.
pytestmark = [pytest.mark.timeout(400), pytest.mark.long]


async def test_a_runner_killed_while_it_counts_leaves_nothing_of_what_it_counted(
    spark: SparkSession, database: Database, postgres_url: str, tmp_path: Path
) -> None:
    harness = PostgresHarness(postgres_url)
    async with a_bench(spark, database, harness, url=postgres_url, output=tmp_path) as bench:
        await bench.change(start=dict.fromkeys(range(3), 0))
        books = Books(bench)
        [first, *_] = await books.publish(50)
        async with database.transaction() as session:
            discards = await bench.discard(first)
            await UndeliveredRepository(session).record(discards, STREAM, 1)
        await books.passed(first.partition.index, 40, delivered=39, discarded=1)
        await books.asked()
        async with await psycopg.AsyncConnection.connect(postgres_url) as blocking:
            # Messages are counted by then, and discards are not: there it is killed.
            await blocking.execute("LOCK TABLE ledger_discards IN SHARE MODE")
            namespace = {"ANGELIA_NAMESPACE": harness.namespace}
            async with runner(postgres_url, tmp_path, **namespace) as killed:
                waiting = partial(is_waiting_for_the_lock, database, "ledger_discards")
                await eventually(waiting, seconds=PATIENCE_S)
                killed.kill()
                await killed.wait()

        async def is_made() -> bool:
            return len(await books.entries()) > 0

        stopping = asyncio.Event()
        async with listen(postgres_url, [JOBS]) as notices, asyncio.TaskGroup() as tasks:
            settings = Settings(spark_output=str(tmp_path), namespace=harness.namespace)
            engine = SparkEngine(settings, database_url=postgres_url, start=lambda _: spark)
            second = Runner(DatabaseJobs(database, notices, "r-2"), engine)
            tasks.create_task(second.run(stopping))
            await eventually(is_made, seconds=PATIENCE_S)
            stopping.set()
        [entry] = await books.entries()
        assert entry.sums == Sums(
            published=50, delivered=39, discarded=1, recorded=1, unfinished=10
        )
        assert entry.doubts == []
        assert (await books.service.check(TOPIC, "billing")).entries == 1
