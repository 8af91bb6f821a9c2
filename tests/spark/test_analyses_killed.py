"""Runners as processes of their own, killed while they write what an analysis has found."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

from app.config import Settings
from app.domain.job import Job, JobKind, JobScope, JobState
from app.services.insight.analytics import AnalyticsService, Question
from app.services.insight.simulations import SimulationService, WantedSimulation
from app.storage.database import Database
from app.storage.insight.jobs import JobRepository
from app.storage.notices import JOBS, listen
from spark.engine import SparkEngine
from spark.runner import Runner
from spark.store import DatabaseJobs
from tests.contract.harness import PostgresHarness
from tests.contract.logs import eventually
from tests.integration.storage.builders import TOPIC
from tests.spark.retransmissions import Bench, a_bench
from tests.spark.test_latency_job import HOUR, recorded
from tests.spark.test_runner_process import PATIENCE_S, runner
from tests.spark.test_undelivered_job import is_waiting_for_the_lock

# The first test starts Spark, on a machine that may be busy.
# The jobs' own files have it shorter, and test_runner_process.py kills one runner for all.
pytestmark = [pytest.mark.timeout(400), pytest.mark.long]

TABLES = ("analytics_latency", "simulated_minutes")


async def asked_for(bench: Bench, start: datetime) -> tuple[str, str]:
    """A latency analysis and a simulation."""
    async with bench.database.transaction() as session:
        scope = JobScope(start=start, end=start + HOUR)
        latency = await JobRepository(session).add(JobKind.LATENCY_ANALYTICS, scope)
    now = datetime.now(UTC)
    wanted = WantedSimulation(since=now - HOUR, until=now + timedelta(seconds=1))
    service = SimulationService(bench.database, bench.log)
    [simulation] = (await service.request(TOPIC, bench.subscription.name, wanted)).jobs
    return latency.id, simulation.id


async def killed_while_they_write(bench: Bench) -> None:
    """Two runners, each with one of the jobs, of which none can write its result."""

    async def are_waiting() -> bool:
        return all([await is_waiting_for_the_lock(bench.database, table) for table in TABLES])

    namespace = {"ANGELIA_NAMESPACE": bench.place.namespace}
    places = [bench.output / name for name in ("first", "second")]
    for each in places:
        each.mkdir()
    async with await psycopg.AsyncConnection.connect(bench.url) as blocking:
        for table in TABLES:
            await blocking.execute(f"LOCK TABLE {table} IN SHARE MODE")
        async with (
            runner(bench.url, places[0], **namespace) as first,
            runner(bench.url, places[1], **namespace) as second,
        ):
            await eventually(are_waiting, seconds=PATIENCE_S)
            for process in (first, second):
                process.kill()
                await process.wait()


async def test_runners_killed_while_they_write_change_nothing_of_what_analyses_find(
    spark: SparkSession, database: Database, postgres_url: str, tmp_path: Path
) -> None:
    harness = PostgresHarness(postgres_url)
    start = datetime.now(UTC).replace(minute=30, second=0, microsecond=0) - 3 * HOUR
    async with a_bench(spark, database, harness, url=postgres_url, output=tmp_path) as bench:
        await recorded(database, start)
        await bench.publish(*(b"%d" % number for number in range(50)))
        ids = await asked_for(bench, start)
        await killed_while_they_write(bench)

        async def jobs() -> list[Job]:
            async with database.transaction() as session:
                return [await JobRepository(session).get(each) for each in ids]

        async def are_done() -> bool:
            return all(each.state is JobState.DONE for each in await jobs())

        stopping = asyncio.Event()
        async with listen(postgres_url, [JOBS]) as notices, asyncio.TaskGroup() as tasks:
            settings = Settings(spark_output=str(tmp_path), namespace=harness.namespace)
            engine = SparkEngine(settings, database_url=postgres_url, start=lambda _: spark)
            third = Runner(DatabaseJobs(database, notices, "r-3"), engine)
            tasks.create_task(third.run(stopping))
            await eventually(are_done, seconds=PATIENCE_S)
            stopping.set()
        latency, simulation = await jobs()
        assert [(each.attempt, each.lost) for each in (latency, simulation)] == [(2, 1)] * 2
        assert latency.result.counts["messages"] == 23
        _, found = await AnalyticsService(database).latency(Question(limit=10))
        assert sorted((each.delivered, each.discarded) for each in found) == [(0, 1), (22, 0)]
        assert simulation.result.counts["read"] == 50
        service = SimulationService(database, bench.log)
        name = bench.subscription.name
        seen = await service.get(TOPIC, name, job_id=simulation.id, limit=10)
        assert sum(each.read for each in seen.minutes) == 50
