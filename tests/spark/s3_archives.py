"""Archives and results on S3, on a real Spark and an S3 of this machine: `make test-s3`."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from app.domain.job import JobKind, JobState
from app.domain.replay.retransmission import RetransmissionState
from app.services.insight.jobs import JobService
from app.storage.database import Database
from app.storage.insight.jobs import JobRepository
from tests.contract.harness import PostgresHarness
from tests.contract.logs import eventually
from tests.integration.storage.builders import TOPIC
from tests.servers.s3 import S3, running
from tests.servers.spark_s3 import jars
from tests.spark.archives import AT_ONCE, SCOPE, aged, archived, done, folders, kept_places
from tests.spark.ledgers import Books
from tests.spark.retransmissions import Bench, a_bench, places, trimmed
from tests.spark.small import small_session
from tests.spark.test_runner_process import PATIENCE_S, runner

# The first test starts Spark, on a machine that may be busy.
pytestmark = pytest.mark.timeout(400)

SECRET = "wJalrXUtnFEMI-K7MDENG-bPxRfiCYEXAMPLEKEY"


def reached_at(server: S3, bucket: str) -> dict[str, str]:
    """How Hadoop gets there, as users of another S3 than Amazon's say it."""
    of_bucket = f"fs.s3a.bucket.{bucket}"
    return {f"{of_bucket}.endpoint": server.url, f"{of_bucket}.path.style.access": "true"}


@pytest.fixture
def harness(postgres_url: str) -> PostgresHarness:
    return PostgresHarness(postgres_url)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One that knows S3."""
    with small_session(tmp_path_factory.mktemp("spark"), more_jars=jars()) as session:
        yield session


@pytest.fixture(scope="session")
def s3() -> Iterator[S3]:
    with running() as server:
        yield server


@pytest.fixture
def bucket(s3: S3) -> str:
    return s3.a_bucket()


@pytest.fixture
async def bench(
    spark: SparkSession,
    database: Database,
    harness: PostgresHarness,
    postgres_url: str,
    s3: S3,
    bucket: str,
    *,
    tmp_path: Path,
) -> AsyncIterator[Bench]:
    """The archive of its topic is in the bucket."""
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001 - PySpark has no way of its own
    keys = {f"fs.s3a.bucket.{bucket}.{each}.key": SECRET for each in ("access", "secret")}
    for name, value in (reached_at(s3, bucket) | keys).items():
        hadoop.set(name, value)
    async with a_bench(spark, database, harness, url=postgres_url, output=tmp_path) as made:
        made.archive = f"s3a://{bucket}/results/archive"
        yield made


async def test_what_is_archived_on_s3_is_sent_again_counted_and_removed(
    bench: Bench, harness: PostgresHarness, s3: S3, bucket: str
) -> None:
    await archived(bench)
    [first, *more] = await bench.publish(*(b"%d" % n for n in range(20)), key=b"k")
    assert (await done(bench)).counts["messages"] == 20
    [folder] = await folders(bench)
    assert folder.startswith(f"s3a://{bucket}/results/archive/{TOPIC}/")
    written = s3.keys(bucket)
    assert [key for key in written if key.endswith(".parquet")]
    assert not [key for key in written if "_temporary" in key]
    last = await bench.publish(*(b"%d" % n for n in range(20, 25)), key=b"k")
    await trimmed(bench, harness, first.partition, offset=20)

    asked, found = await bench.chosen()
    assert found == places([first, *more, *last])
    assert asked.state is RetransmissionState.SENDING
    assert (asked.counts.archived, asked.counts.gone) == (20, 0)
    await done(bench)
    assert sum((await kept_places(bench)).values()) == 25

    await aged(bench, 61)
    await done(bench)
    await done(bench, AT_ONCE)
    assert await folders(bench, state=None) == []
    # What stands for an empty folder is no message.
    assert [key for key in s3.keys(bucket) if not key.endswith("/")] == []


async def test_the_ledger_counts_what_is_archived_on_s3(
    bench: Bench, harness: PostgresHarness
) -> None:
    await archived(bench)
    await bench.change(start=dict.fromkeys(range(3), 0))
    books = Books(bench)
    [first, *_] = await books.publish(10)
    await done(bench)
    await trimmed(bench, harness, first.partition, offset=10)
    await books.passed(first.partition.index, 10, delivered=10)
    entry = await books.entry()
    assert (entry.sums.published, entry.sums.delivered, entry.doubts) == (10, 10, [])


async def test_a_runner_has_its_keys_of_the_environment_and_tells_nobody(
    database: Database, harness: PostgresHarness, postgres_url: str, s3: S3, bucket: str,
    tmp_path: Path, spark: SparkSession,
) -> None:  # fmt: skip
    settings = {
        "ANGELIA_NAMESPACE": harness.namespace,
        "ANGELIA_SPARK_OUTPUT": f"s3a://{bucket}/",
        "ANGELIA_SPARK_JARS": str(jars()[0].parent),
        "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
        "AWS_SECRET_ACCESS_KEY": SECRET,
    }
    hadoop = {f"spark.hadoop.{name}": each for name, each in reached_at(s3, bucket).items()}
    async with a_bench(spark, database, harness, url=postgres_url, output=tmp_path) as bench:
        await archived(bench)
        await bench.publish(b"1", b"2", b"3")
        [job] = (await JobService(database).request(JobKind.ARCHIVE, SCOPE)).jobs

        async def has_ended() -> bool:
            async with database.transaction() as session:
                return (await JobRepository(session).get(job.id)).ended_at is not None

        async with runner(postgres_url, tmp_path, hadoop, **settings):
            await eventually(has_ended, seconds=PATIENCE_S)
    async with database.transaction() as session:
        ended = await JobRepository(session).get(job.id)
    said = await asyncio.to_thread((tmp_path / "runner.log").read_text)
    assert (ended.state, ended.result.counts.get("messages")) == (JobState.DONE, 3), said
    assert ended.result.output == f"s3a://{bucket}/archive"
    assert [key for key in s3.keys(bucket) if key.startswith(f"archive/{TOPIC}/")]
    assert SECRET not in said + "".join(ended.progress.log)
