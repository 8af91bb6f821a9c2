"""How long messages took, out of traces in a real PostgreSQL, on a real Spark."""

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from sqlalchemy import insert

from app.config import Settings
from app.domain.job import Job, JobKind, JobScope
from app.domain.latency import Figure, LatencyPart
from app.domain.replay.coverage import milliseconds
from app.services.insight.analytics import AnalyticsService, Question
from app.storage.database import Database, open_database
from app.storage.insight.jobs import JobRepository
from app.storage.spark.trace_rows import SLICES_MAX, first_traced, slices
from app.storage.tables import TRACE_LOSSES
from app.tracing.packs import TraceRow
from spark.engine import SparkEngine
from spark.jobs import latency_analytics
from spark.store import DatabaseJobs
from spark.traces import traced
from spark.work import WorkProgress
from tests.integration.storage.test_traces import a_pack, a_row, micros, record_by_rows, stored
from tests.spark.taking import taken, taken_again

# The first test starts Spark, on a machine that may be busy.
pytestmark = pytest.mark.timeout(400)

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
BILLING, AUDIT, PUBLISHED = 0, 1, 2


def ended(at: datetime, offset: int, **settings: Any) -> TraceRow:  # noqa: ANN401 - fields of the value
    """A first attempt that is over: a second in the log, half of one to wait, a tenth to send."""
    times = {"queued": 1_000_000, "waited": 500_000, "took": 100_000}
    return a_row("m", at=micros(at), offset=offset, **{**times, **settings})


async def recorded(database: Database, start: datetime) -> None:
    """Deliveries of billing, discards of audit, and what has nothing to do with either."""
    later = {"attempt": 2, "queued": None, "waited": 1_800_000_000}
    untried = {"attempt": 0, "queued": None, "waited": None, "took": None}
    packs = [
        a_pack(*(ended(start + n * MINUTE, n) for n in range(20)), ended(start + HOUR, 20)),
        a_pack(
            ended(start - 20 * MINUTE, 30, status="FAILED"),
            ended(start + 10 * MINUTE, 30, **later),
            ended(start + MINUTE, 31, status="DISCARDED", source=AUDIT, **untried),
            ended(start + MINUTE, 32, retransmission="r"),
        ),
        a_pack(
            ended(start + MINUTE, -1, source=PUBLISHED),
            ended(start + MINUTE, 33, status="INFLIGHT", took=None),
            ended(start + MINUTE, 33, status="FILTERED", **untried),
        ),
    ]
    await stored(database, *packs)
    # As earlier versions did, without the times that it does not know.
    await record_by_rows(database, "m", start + 2 * MINUTE)
    async with database.transaction() as session:
        loss = {"at": start, "entries": 3, "worker": "w-1", "reason": "why"}
        await session.execute(insert(TRACE_LOSSES).values(loss))


async def test_a_job_says_how_long_messages_took_to_each_subscription(
    spark: SparkSession, database: Database, postgres_url: str, tmp_path: Path
) -> None:
    """Its first runner, which was believed dead, changes nothing."""
    start = datetime.now(UTC).replace(minute=30, second=0, microsecond=0) - 3 * HOUR
    scope = JobScope(start=start, end=start + HOUR, slo=2 * SECOND)
    await recorded(database, start)
    engine = SparkEngine(
        Settings(spark_output=str(tmp_path)), database_url=postgres_url, start=lambda _: spark
    )
    lost = await taken(database, JobKind.LATENCY_ANALYTICS, scope)
    await asyncio.to_thread(engine.run, lost, WorkProgress())
    job = await taken_again(database, lost)
    result = await asyncio.to_thread(engine.run, job, WorkProgress())
    # Only what it hears of its jobs is the notices': this one hears nothing.
    store = DatabaseJobs(database, notices=None, runner="r-2")  # type: ignore[arg-type]  # not used
    assert await store.finish(job.claim, result)
    await asyncio.to_thread(engine.run, lost, WorkProgress())

    # Since twenty minutes before.
    covered = {"coveredFrom": milliseconds(start)}
    assert result.counts == {"messages": 23, "subscriptions": 2, "lost": 3} | covered
    seen, [audit, billing] = await AnalyticsService(database).latency(Question(limit=10))
    assert seen.scope == scope
    assert (audit.delivered, audit.discarded, audit.unknown) == (0, 1, 0)
    assert (audit.within, audit.attained, audit.times) == (0, 0.0, {})
    assert (billing.delivered, billing.discarded, billing.unknown) == (22, 0, 1)
    assert (billing.resent, billing.attempts, billing.within) == (1, 23, 20)
    assert billing.attained == 20 / 21
    total = billing.times[LatencyPart.TOTAL]
    assert total[Figure.P50] == 1.6 * SECOND
    assert total[Figure.MAX] == 30 * MINUTE + 1.6 * SECOND
    assert billing.times[LatencyPart.WAITED][Figure.MAX] == 30 * MINUTE + 0.4 * SECOND
    parts = (LatencyPart.QUEUED, LatencyPart.WAITED, LatencyPart.CONNECT, LatencyPart.SUBSCRIBER)
    means = sum((billing.times[part][Figure.MEAN] for part in parts), timedelta())
    assert abs(means - total[Figure.MEAN]) < timedelta(microseconds=4)
    kept = spark.read.parquet(f"{result.output}/latency").orderBy("subscription")
    assert [row.total_p50_us for row in kept.collect()] == [None, 1_600_000]


async def test_a_job_on_one_subscription_reads_no_other(
    spark: SparkSession, database: Database, postgres_url: str
) -> None:
    start = datetime.now(UTC).replace(minute=30, second=0, microsecond=0) - 3 * HOUR
    await recorded(database, start)
    audit = JobScope(start=start, end=start + HOUR, topic="shop.orders", subscription="audit")
    found = traced(spark, postgres_url, audit)
    assert [row.offset for row in found.select("offset").collect()] == [31]
    assert traced(spark, postgres_url, replace(audit, topic="shop.returns")).isEmpty()
    # The first of it is of a minute later; what the others have before says nothing of it.
    first = first_traced(postgres_url, audit)
    assert first is not None
    assert first - start <= MINUTE
    assert first_traced(postgres_url, replace(audit, subscription="none")) is None
    # Four hours with what is looked back at.
    assert found.rdd.getNumPartitions() == 48


def test_the_job_runs_on_its_own_into_parquet(
    spark: SparkSession,
    postgres_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("ANGELIA_DATABASE_URL", postgres_url)
    told = ["--from", "2026-01-01", "--to", "2026-01-02", "--slo-seconds", "0.5"]
    latency_analytics.main([*told, "--output", f"{tmp_path}/out/"])
    said = json.loads(capsys.readouterr().out)
    nothing = {"messages": 0, "subscriptions": 0, "lost": 0}
    assert said == nothing | {"coveredFrom": milliseconds(datetime(2026, 1, 2, tzinfo=UTC))}
    assert spark.read.parquet(f"{tmp_path}/out/latency").isEmpty()


def test_a_requested_job_is_done_by_spark_submit(
    spark: SparkSession,
    postgres_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("ANGELIA_DATABASE_URL", postgres_url)
    monkeypatch.setenv("ANGELIA_SPARK_OUTPUT", str(tmp_path))
    end = datetime.now(UTC)
    job = asyncio.run(requested(postgres_url, JobScope(start=end - HOUR, end=end)))
    with pytest.raises(SystemExit) as ended_with:
        latency_analytics.main(["--job", job.id])
    assert ended_with.value.code == 0
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (said["id"], said["state"], said["counts"]["messages"]) == (job.id, "DONE", 0)
    for told in (["--job", job.id, "--output", "x"], ["--from", "2026-01-01"]):
        with pytest.raises(SystemExit) as refused:
            latency_analytics.main(told)
        assert refused.value.code == 2
    assert not spark.sparkContext._jsc.sc().isStopped()  # noqa: SLF001 - PySpark does not tell


async def requested(url: str, scope: JobScope) -> Job:
    async with open_database(url) as database, database.transaction() as session:
        return await JobRepository(session).add(JobKind.LATENCY_ANALYTICS, scope)


def test_slices_cover_every_moment_once_and_are_never_too_many() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for length in (SECOND, HOUR, timedelta(days=366) + SECOND):
        found = slices(start, start + length)
        assert (found[0][0], found[-1][1]) == (start, start + length)
        assert all(left[1] == right[0] for left, right in pairwise(found))
        assert len(found) <= SLICES_MAX
