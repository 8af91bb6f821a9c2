"""Each kind of job on a cluster whose machines have Spark and Python, and nothing of Angelia."""

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from app.cli.executor_archive import uses_of, write_archive
from app.domain.job import JobKind
from app.storage.database import Database
from tests.architecture.tree import ROOT
from tests.contract.harness import PostgresHarness
from tests.contract.logs import eventually
from tests.servers.spark_cluster import SparkCluster, spark_cluster
from tests.spark.kinds import is_done, one_of_each, require_as_wanted
from tests.spark.retransmissions import Bench, a_bench
from tests.spark.test_cluster import HERE, PATIENCE_S
from tests.spark.test_runner_process import runner
from tests.spark.test_submitted import submitted

# A whole cluster starts, and a Spark for each job, on a machine that may be busy.
# test_cluster.py has one job, and test_packing.py what the archive contains.
pytestmark = [pytest.mark.timeout(3600), pytest.mark.long]

# The script of each kind.
SCRIPTS: Final[Mapping[JobKind, str]] = {
    **{kind: f"{kind.lower()}.py" for kind in JobKind},
    JobKind.LEDGERS: "ledger.py",
}


@pytest.fixture
def packed(tmp_path: Path) -> Iterator[Mapping[str, str]]:
    """What `angelia spark pack` says, with its archive, which is large."""
    archive = tmp_path / "angelia.tar.gz"
    write_archive(archive)
    yield uses_of(archive)
    archive.unlink()


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[SparkCluster]:
    """A cluster whose Python has no packages at all."""
    place = tmp_path / "cluster"
    bare = place / "python"
    made = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "venv", "--without-pip", str(bare)
    )
    assert await made.wait() == 0
    async with spark_cluster(place, commands=bare / "bin") as started:
        yield started
    shutil.rmtree(place)


@pytest.fixture
async def bench(database: Database, postgres_url: str, tmp_path: Path) -> AsyncIterator[Bench]:
    """Without a Spark in this process."""
    no_session: Any = None
    harness = PostgresHarness(postgres_url)
    async with a_bench(no_session, database, harness, url=postgres_url, output=tmp_path) as made:
        yield made


async def test_a_runner_does_each_kind_of_job_with_an_archive_on_bare_machines(
    bench: Bench, cluster: SparkCluster, packed: Mapping[str, str], tmp_path: Path
) -> None:
    wanted = await one_of_each(bench)
    assert wanted.keys() == set(JobKind)

    async def are_done() -> bool:
        return all([await is_done(bench, each.id) for each in wanted.values()])

    settings = {
        "ANGELIA_SPARK_MASTER": cluster.master,
        "ANGELIA_NAMESPACE": bench.place.namespace,
        "ANGELIA_SPARK_OUTPUT": str(tmp_path / "output"),
    }
    async with runner(bench.url, tmp_path, {**HERE, **packed}, **settings):
        await eventually(are_done, seconds=3 * PATIENCE_S)
    await require_as_wanted(bench, wanted)
    assert all(each.tasks_done > 0 for each in cluster.workers)


async def test_spark_submit_does_each_kind_of_job_with_an_archive_on_bare_machines(
    bench: Bench, cluster: SparkCluster, packed: Mapping[str, str], tmp_path: Path
) -> None:
    wanted = await one_of_each(bench)
    given = ["--archives", packed["spark.archives"], "--master", cluster.master]
    for name in ("spark.executorEnv.PYTHONPATH", "spark.pyspark.python"):
        given += ["--conf", f"{name}={packed[name]}"]
    settings = {
        "ANGELIA_DATABASE_URL": bench.url,
        "ANGELIA_NAMESPACE": bench.place.namespace,
        "ANGELIA_SPARK_OUTPUT": str(tmp_path / "output"),
    }
    for kind, each in wanted.items():
        before = sum(worker.tasks_done for worker in cluster.workers)
        said = await submitted(
            tmp_path,
            ROOT / "spark/jobs" / SCRIPTS[kind],
            ["--job", each.id],
            options=given,
            defaults=HERE,
            settings=settings,
        )
        assert said["state"] == "DONE"
        assert sum(worker.tasks_done for worker in cluster.workers) > before
    await require_as_wanted(bench, wanted)
