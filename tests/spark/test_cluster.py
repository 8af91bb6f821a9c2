"""Jobs on a cluster of several machines: a standalone master and two workers."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Final

import psycopg
import pytest

from app.domain.job import JobKind, JobState
from app.services.insight.analytics import AnalyticsService, Question
from app.storage.database import Database
from app.storage.insight.jobs import JobRepository
from tests.contract.logs import eventually
from tests.integration.storage.builders import an_undelivered
from tests.servers import java
from tests.servers.spark_cluster import SparkCluster, spark_cluster
from tests.spark.small import FRUGAL
from tests.spark.test_runner_process import runner
from tests.spark.test_undelivered_job import DAY, is_waiting_for_the_lock, recorded

# A whole cluster starts, on a machine that may be busy.
pytestmark = [pytest.mark.timeout(1200), pytest.mark.long]

PATIENCE_S = 450.0
# All processes are on this machine.
HERE: Final[Mapping[str, str]] = {
    **FRUGAL,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": " ".join(java.OPTIONS),
}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[SparkCluster]:
    async with spark_cluster(tmp_path / "cluster") as started:
        yield started


async def test_a_job_ends_as_it_should_though_a_worker_is_killed_in_the_middle(
    cluster: SparkCluster, database: Database, postgres_url: str, tmp_path: Path
) -> None:
    await recorded(database, [an_undelivered(offset, attempts=2) for offset in range(50)])
    async with database.transaction() as session:
        job = await JobRepository(session).add(JobKind.UNDELIVERED_ANALYTICS, DAY)

    async def is_done() -> bool:
        async with database.transaction() as session:
            found = await JobRepository(session).get(job.id)
        assert found.state is not JobState.FAILED, found
        return found.state is JobState.DONE

    async def is_waiting() -> bool:
        assert not await is_done()
        return await is_waiting_for_the_lock(database)

    async with await psycopg.AsyncConnection.connect(postgres_url) as blocking:
        # Messages are counted by then, and counts are not stored: there a worker is killed.
        await blocking.execute("LOCK TABLE analytics_undelivered IN SHARE MODE")
        master = {"ANGELIA_SPARK_MASTER": cluster.master}
        async with runner(postgres_url, tmp_path, HERE, **master):
            await eventually(is_waiting, seconds=PATIENCE_S)
            # The task that waits runs on one of them.
            killed = max(cluster.workers, key=lambda worker: worker.tasks_running)
            assert killed.tasks_running > 0
            killed.kill()
            await blocking.rollback()
            await eventually(is_done, seconds=PATIENCE_S)
    [left] = [each for each in cluster.workers if each is not killed]
    assert killed.tasks_done > 0
    assert left.tasks_done > 0
    _, counts = await AnalyticsService(database).undelivered(Question(limit=10, job_id=job.id))
    assert [(each.messages, each.attempts) for each in counts] == [(50, 100)]
