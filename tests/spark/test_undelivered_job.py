"""The whole job on a real Spark and a real PostgreSQL."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from app.config import Settings
from app.domain.discards.undelivered import Undelivered
from app.domain.insight.analytics import Dimension
from app.domain.job import Claim, Job, JobKind, JobResult, JobScope, JobState
from app.domain.message import Partition
from app.services.insight.analytics import AnalyticsService, Question
from app.storage.database import Database
from app.storage.discards.undelivered import UndeliveredRepository
from app.storage.insight.jobs import JobRepository
from app.storage.spark.discard_rows import BODY_SIZE_MAX, RANGE_ROWS, ranges
from spark.engine import SparkEngine
from spark.jobs import undelivered_analytics
from spark.sources import undelivered
from spark.store import DatabaseJobs
from spark.transforms.undelivered import counted, described
from spark.work import Work, WorkProgress, WorkStoppedError
from tests.contract.logs import eventually
from tests.integration.storage.builders import NOON, an_undelivered
from tests.spark import taking
from tests.spark.plans import plan_of

# The first test starts Spark, on a machine that may be busy.
pytestmark = pytest.mark.timeout(400)

DAY = JobScope(start=NOON - timedelta(days=1), end=NOON + timedelta(days=1))
STREAM = Partition("angelia.undelivered", 0)

# Whatever CSV could trip over, and JSON, and PostgreSQL's NULL.
ODD: Sequence[dict[str, Any]] = (
    {"reason": 'a "quoted", reason\nin two lines \\N \\.', "status": None},
    {"reason": "", "body": b""},
    {"message_id": "\N{SNOWMAN}, \"'", "body": b"\xff\x00"},
    {"subscription": "audit", "subscription_id": "s-2", "body": b"x" * (BODY_SIZE_MAX + 1)},
    {"body": b'{"text": "' + b"\\n" * 30_000 + b'"}'},
    {"topic": "shop.refunds", "headers": (), "body": rb'{"\u0000": 1}'},
)


async def recorded(database: Database, discards: Sequence[Undelivered]) -> None:
    async with database.transaction() as session:
        await UndeliveredRepository(session).record(discards, STREAM, 1_000_000)


async def taken(database: Database, scope: JobScope = DAY) -> Job:
    return await taking.taken(database, JobKind.UNDELIVERED_ANALYTICS, scope)


async def finished(database: Database, claim: Claim, result: JobResult) -> None:
    # Only what it hears of its jobs is the notices': this one hears nothing.
    store = DatabaseJobs(database, notices=None, runner="r-1")  # type: ignore[arg-type]  # not used
    assert await store.finish(claim, result)


def work_of(job: Job, url: str, output: Path) -> Work:
    return Work(
        database_url=url,
        scope=job.scope,
        output=str(output),
        claim=job.claim,
        progress=WorkProgress(),
    )


def engine_of(spark: SparkSession, url: str, output: Path) -> SparkEngine:
    settings = Settings(spark_output=str(output))
    return SparkEngine(settings, database_url=url, start=lambda _: spark)


async def test_a_job_counts_what_was_recorded_whatever_it_is(
    spark: SparkSession, database: Database, postgres_url: str, tmp_path: Path
) -> None:
    usual = [an_undelivered(offset, attempts=2, body=b'{"a": 1}') for offset in range(20)]
    odd = [an_undelivered(100 + number, **settings) for number, settings in enumerate(ODD)]
    outside = [an_undelivered(200 + n, discarded_at=when) for n, when in enumerate(
        (DAY.start - timedelta(microseconds=1), DAY.end))]  # fmt: skip
    await recorded(database, [*usual, *odd, *outside])
    job = await taken(database)
    work = work_of(job, postgres_url, tmp_path / "out")
    result = await asyncio.to_thread(undelivered_analytics.run, spark, work)
    await finished(database, job.claim, result)
    assert result.counts["messages"] == len(usual) + len(odd)

    analytics = AnalyticsService(database)
    by = (Dimension.TOPIC, Dimension.SUBSCRIPTION, Dimension.STATUS, Dimension.REASON)
    _, counts = await analytics.undelivered(Question(limit=100, by=by))
    found = {(c.topic, c.subscription, c.status, c.reason): c.messages for c in counts}
    failed = "Message sending failed with status code:400"
    assert found == {
        ("shop.orders", "billing", 400, failed): 22,
        ("shop.orders", "billing", None, r"a <text>, reason in two lines \N \."): 1,
        ("shop.orders", "billing", 400, ""): 1,
        ("shop.orders", "audit", 400, failed): 1,
        ("shop.refunds", "billing", 400, failed): 1,
    }
    assert sum(c.volume for c in counts) == sum(len(each.body) for each in [*usual, *odd])
    assert sum(c.attempts for c in counts) == sum(each.attempts for each in [*usual, *odd])

    _, clusters = await analytics.failures(Question(limit=100, topic="shop.orders"))
    shapes = {(c.error, c.shape): (c.messages, c.subscriptions, c.shapes) for c in clusters}
    assert shapes == {
        (failed, "{a}"): (20, 1, 4),
        (failed, "other"): (1, 1, 4),
        (failed, "large"): (1, 1, 4),
        (failed, "{text}"): (1, 1, 4),
        (r"a <text>, reason in two lines \N \.", "other"): (1, 1, 1),
        ("", "empty"): (1, 1, 1),
    }
    largest = clusters[0]
    assert (largest.example_id, largest.first_at, largest.last_at) == (
        "m-19", NOON, NOON + timedelta(seconds=19),
    )  # fmt: skip
    kept = spark.read.parquet(f"{result.output}/undelivered").selectExpr("sum(messages)").first()
    assert kept == (26,)


async def test_a_job_on_one_subscription_sees_no_other(
    spark: SparkSession, database: Database, postgres_url: str, tmp_path: Path
) -> None:
    discards = [an_undelivered(number, **settings) for number, settings in enumerate(ODD)]
    await recorded(database, discards)
    job = await taken(database, replace(DAY, topic="shop.orders", subscription="audit"))
    work = work_of(job, postgres_url, tmp_path / "out")
    result = await asyncio.to_thread(undelivered_analytics.run, spark, work)
    assert result.counts == {"messages": 1, "counts": 1, "clusters": 1}


async def test_a_job_on_nothing_is_done_and_has_found_nothing(
    spark: SparkSession, database: Database, postgres_url: str, tmp_path: Path
) -> None:
    job = await taken(database)
    work = work_of(job, postgres_url, tmp_path / "out")
    result = await asyncio.to_thread(undelivered_analytics.run, spark, work)
    assert result.counts == {"messages": 0, "counts": 0, "clusters": 0}


async def test_an_attempt_that_was_overtaken_adds_nothing_to_what_is_shown(
    spark: SparkSession, database: Database, postgres_url: str, tmp_path: Path
) -> None:
    await recorded(database, [an_undelivered(offset) for offset in range(5)])
    engine = engine_of(spark, postgres_url, tmp_path)
    first = await taken(database)
    await asyncio.to_thread(engine.run, first, WorkProgress())
    second = await taking.taken_again(database, first)
    result = await asyncio.to_thread(engine.run, second, WorkProgress())
    await finished(database, second.claim, result)
    # The first runner, which knows of nothing, is not done yet.
    await asyncio.to_thread(engine.run, first, WorkProgress())
    _, counts = await AnalyticsService(database).undelivered(Question(limit=10))
    assert [count.messages for count in counts] == [5]
    assert result.output == f"{tmp_path}/undelivered_analytics/{first.id}/2"


async def test_a_job_that_is_cancelled_in_the_middle_stops_within_seconds(
    spark: SparkSession, database: Database, postgres_url: str, tmp_path: Path
) -> None:
    await recorded(database, [an_undelivered(offset) for offset in range(5)])
    engine = engine_of(spark, postgres_url, tmp_path)
    job, progress = await taken(database), WorkProgress()
    async with await psycopg.AsyncConnection.connect(postgres_url) as blocking:
        # Its tasks cannot write.
        await blocking.execute("LOCK TABLE analytics_undelivered IN SHARE MODE")
        async with asyncio.TaskGroup() as tasks:
            doing = tasks.create_task(stopped(engine, job, progress))
            await eventually(lambda: is_waiting_for_the_lock(database))
            progress.stop()
            async with asyncio.timeout(10):
                engine.cancel(job)
                assert await doing
    async with database.transaction() as session:
        assert (await JobRepository(session).get(job.id)).state is JobState.RUNNING


async def stopped(engine: SparkEngine, job: Job, progress: WorkProgress) -> bool:
    try:
        await asyncio.to_thread(engine.run, job, progress)
    except Exception as exc:  # noqa: BLE001 - whatever Spark raises for it
        return isinstance(exc, WorkStoppedError) or "cancelled" in str(exc)
    return False


async def is_waiting_for_the_lock(database: Database, table: str = "analytics_undelivered") -> bool:
    async with database.transaction() as session:
        connection = await session.connection()
        found = await connection.exec_driver_sql(
            "SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database"
            " WHERE NOT granted AND relation = %s::regclass AND datname = current_database()",
            (table,),
        )
        return bool(found.scalar())


async def test_a_job_says_what_was_wrong_with_the_database(
    spark: SparkSession, database: Database, tmp_path: Path
) -> None:
    job = await taken(database)
    url = "postgresql://nobody:secret@127.0.0.1:1/nothing"
    work = work_of(job, url, tmp_path / "out")
    with pytest.raises(Exception, match="StorageUnavailableError") as raised:
        await asyncio.to_thread(undelivered_analytics.run, spark, work)
    assert "secret" not in str(raised.value)


async def test_tasks_share_the_ids_and_counting_needs_one_shuffle(
    spark: SparkSession, database: Database, postgres_url: str
) -> None:
    async with database.transaction() as session:
        connection = await session.connection()
        # Ids as after many discards, most of which are dropped by now.
        await connection.exec_driver_sql(
            f"ALTER TABLE undelivered ALTER COLUMN id RESTART WITH {2 * RANGE_ROWS}"
        )
    await recorded(database, [an_undelivered(1)])
    async with database.transaction() as session:
        connection = await session.connection()
        await connection.exec_driver_sql("ALTER TABLE undelivered ALTER COLUMN id RESTART WITH 1")
    await recorded_at(database, an_undelivered(2))
    source = undelivered(spark, postgres_url, DAY)
    assert source.rdd.getNumPartitions() == 2
    plan = plan_of(counted(described(source)))
    assert plan.count("Exchange") == 1
    assert "Python" not in plan.replace("(Python)", "")
    assert "postgresql" not in plan


async def recorded_at(database: Database, discard: Undelivered) -> None:
    async with database.transaction() as session:
        await UndeliveredRepository(session).record([discard], STREAM, 1_000_001)


def test_ranges_cover_every_id_once_and_are_never_too_many() -> None:
    for first, end in ((1, 2), (5, RANGE_ROWS + 5), (1, 1_000_000_000)):
        found = ranges(first, end)
        assert found[0][0] == first
        assert found[-1][1] == end
        assert all(left[1] == right[0] for left, right in pairwise(found))
        assert len(found) <= 512


def test_the_job_runs_on_its_own_into_parquet(
    spark: SparkSession,
    postgres_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("ANGELIA_DATABASE_URL", postgres_url)
    undelivered_analytics.main(["--from", "2026-01-01", "--output", f"{tmp_path}/out/"])
    assert json.loads(capsys.readouterr().out) == {"messages": 0, "counts": 0, "clusters": 0}
    assert spark.read.parquet(f"{tmp_path}/out/failures").isEmpty()
