"""Jobs with few rows have few tasks, even if a shuffle may have many partitions."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from app.config import Settings
from app.domain.job import JobKind
from app.storage.insight.jobs import JobRepository
from spark.engine import SparkEngine
from spark.work import WorkProgress
from tests.contract.logs import eventually
from tests.spark.kinds import one_of_each
from tests.spark.retransmissions import EMBEDDED, Bench
from tests.spark.taking import LEASE

# The first test starts Spark, on a machine that may be busy.
pytestmark = [pytest.mark.timeout(600), pytest.mark.long]

PARTITIONS = "spark.sql.shuffle.partitions"
# As many partitions as Spark has by default.
MANY = 200
ANALYSES = (JobKind.UNDELIVERED_ANALYTICS, JobKind.LATENCY_ANALYTICS, JobKind.SIMULATION)


@pytest.fixture
def as_on_clusters(spark: SparkSession) -> Iterator[SparkSession]:
    """A session whose shuffles may have many partitions."""
    before = spark.conf.get(PARTITIONS)
    spark.conf.set(PARTITIONS, str(MANY))
    yield spark
    spark.conf.set(PARTITIONS, before or "")


async def tasks_of_stages(spark: SparkSession, group: str) -> list[int]:
    """How many tasks each stage had that ran."""
    tracker, found = spark.sparkContext.statusTracker(), list[int]()

    async def are_reported() -> bool:
        # Spark reports stages a little later.
        jobs = [tracker.getJobInfo(each) for each in tracker.getJobIdsForGroup(group)]
        stages = [tracker.getStageInfo(each) for job in jobs if job for each in job.stageIds]
        found[:] = [each.numTasks for each in stages if each and each.numCompletedTasks]
        return len(found) > 0

    await eventually(are_reported)
    return found


@EMBEDDED
async def test_analyses_of_few_rows_have_few_tasks(
    bench: Bench, as_on_clusters: SparkSession, tmp_path: Path
) -> None:
    wanted = await one_of_each(bench)
    settings = Settings(spark_output=str(tmp_path), namespace=bench.place.namespace)
    engine = SparkEngine(settings, database_url=bench.url, start=lambda _: as_on_clusters)
    for kind in ANALYSES:
        async with bench.database.transaction() as session:
            job = await JobRepository(session).take("r-1", LEASE, job_id=wanted[kind].id)
        assert job is not None
        result = await asyncio.to_thread(engine.run, job, WorkProgress())
        assert wanted[kind].counts.items() <= dict(result.counts).items()
        found = await tasks_of_stages(as_on_clusters, job.id)
        assert 0 < max(found) < MANY
