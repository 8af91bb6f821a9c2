"""What a topic had in a time is published once more, on a real Spark, PostgreSQL, and each log."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

from app.config import Settings
from app.domain.job import Job, JobResult
from app.domain.message import HEADER_ID, HEADER_TARGET, NewRecord, Record
from app.domain.replay.republishing import RepublishRequest, RepublishTask
from app.domain.replay.retransmission import OffsetSpan
from app.domain.targeted import RecordTarget
from app.services.replay.republishing import OfflineService
from app.storage.database import Database
from app.storage.notices import JOBS, listen
from spark.engine import SparkEngine
from spark.jobs import offline_retransmission
from spark.jobs.offline_retransmission import in_order
from spark.jobs.republishing import BATCH_MAX
from spark.runner import Runner
from spark.schemas import MESSAGES
from spark.store import DatabaseJobs
from tests.contract.harness import Harness, PostgresHarness
from tests.contract.logs import a_topic, eventually, read_all
from tests.integration.storage.builders import TOPIC, add_topic
from tests.spark.archives import archived, done
from tests.spark.retransmissions import Bench, a_bench, trimmed
from tests.spark.taking import taken_again
from tests.spark.test_runner_process import PATIENCE_S, runner

# The first test starts Spark, on a machine that may be busy.
pytestmark = pytest.mark.timeout(400)

AGAIN = "shop.again"
SINCE = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=3)
UNTIL = SINCE + timedelta(hours=1)


def at_ms(moment: datetime, more: int = 0) -> int:
    return int(moment.timestamp()) * 1_000 + more


def a_record(body: str, at: int, key: bytes = b"k", *headers: tuple[bytes, bytes]) -> NewRecord:
    named = ((HEADER_ID, b"m-" + body.encode()), *headers)
    return NewRecord(value=body.encode(), key=key, headers=named, timestamp_ms=at)


async def with_target(bench: Bench) -> OfflineService:
    await bench.log.create_topic(a_topic(AGAIN, partitions=2))
    async with bench.database.transaction() as session:
        await add_topic(session, AGAIN)
    return OfflineService(bench.database, bench.log)


async def published(bench: Bench) -> Sequence[Record]:
    """What the target has, partition by partition."""
    partitions = await bench.log.partitions(AGAIN)
    return [record for each in partitions for record in await read_all(bench.log, each)]


def bodies(records: Sequence[Record], key: bytes = b"k") -> list[str]:
    return [(each.value or b"").decode() for each in records if each.key == key]


async def republished(bench: Bench, job: Job) -> JobResult:
    return await asyncio.to_thread(offline_retransmission.run, bench.spark, bench.work(job))


async def standing(service: OfflineService) -> RepublishTask:
    [task] = (await service.newest(limit=10)).tasks
    return task


async def test_messages_of_a_time_are_published_once_wherever_they_are(
    bench: Bench, harness: Harness
) -> None:
    service = await with_target(bench)
    await archived(bench)
    alone = (HEADER_TARGET, RecordTarget("a" * 32, "b" * 32).header())
    old = [
        a_record("early", at_ms(SINCE, -1)),
        *(a_record(f"old {n}", at_ms(SINCE, n), b"k", (b"h-x", b"a")) for n in range(10)),
        a_record("alone", at_ms(SINCE, 10), b"k", alone),
    ]
    places = await bench.log.append(TOPIC, old)
    await done(bench)
    # Half of them only the archive has by now.
    await trimmed(bench, harness, places[0].partition, offset=places[6].offset)
    new = [
        *(a_record(f"new {n}", at_ms(UNTIL, n - 10)) for n in range(10)),
        a_record("other", at_ms(UNTIL, -1), b"other"),
        a_record("late", at_ms(UNTIL)),
    ]
    await bench.log.append(TOPIC, new)
    await service.request(TOPIC, AGAIN, since=SINCE, until=UNTIL)
    await bench.log.append(TOPIC, [a_record("after", at_ms(UNTIL, -1), b"other")])

    job = await bench.taken()
    result = await republished(bench, job)
    found = await published(bench)
    wanted = [*(f"old {n}" for n in range(10)), *(f"new {n}" for n in range(10))]
    assert bodies(found) == wanted
    assert bodies(found, b"other") == ["other"]
    assert len(found) == 21
    third = next(each for each in found if each.value == b"old 3")
    assert (third.header(b"id"), third.header(b"h-x")) == (b"m-old 3", b"a")
    assert third.timestamp_ms > at_ms(UNTIL)
    size = sum(len(each.value or b"") for each in found)
    assert result.counts == {"written": 21, "bytes": size, "refused": 0, "gone": 0}

    # Whoever took it ended before it could say that it is done.
    again = await taken_again(bench.database, job)
    assert await bench.finished(again, await republished(bench, again))
    assert len(await published(bench)) == 21
    task = await standing(service)
    assert (task.share, task.gone) == (1.0, 0)
    assert (task.done.written, task.done.size, task.done.refused) == (21, size, 0)


def a_request(until: datetime) -> RepublishRequest:
    spans = tuple(OffsetSpan(topic=TOPIC, partition=index, start=0, end=100) for index in range(3))
    return RepublishRequest(source=TOPIC, target=AGAIN, since=SINCE, until=until, spans=spans)


def test_a_partition_is_one_tasks_in_its_order_and_times_have_an_end(spark: SparkSession) -> None:
    rows: list[tuple[object, ...]] = [
        (index, offset, at_ms(SINCE, offset - 1), None, b"", [], None)
        for offset in range(50, -1, -1)
        for index in range(3)
    ]
    asked = a_request(until=SINCE + timedelta(milliseconds=40))
    scattered = spark.createDataFrame(rows, MESSAGES).repartition(5)
    frame = in_order(scattered, asked, tasks_max=200)
    by_task = frame.rdd.glom().map(lambda rows: [(row[0], row[1]) for row in rows]).collect()
    assert all(each == sorted(each) for each in by_task)
    found = [place for each in by_task for place in each]
    assert sorted(found) == [(index, offset) for index in range(3) for offset in range(1, 41)]
    homes = [{index for index, _ in each} for each in by_task]
    assert sum(map(len, homes)) == 3


# From the second that is to be said on, nothing is: what is appended by then is in the target.
HELD = """
CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_advisory_xact_lock_shared(77); RETURN NEW; END $$;
CREATE TRIGGER hold BEFORE UPDATE ON offline_parts FOR EACH ROW WHEN (NEW.written > 0)
EXECUTE FUNCTION hold();
"""
FREED = "DROP TRIGGER hold ON offline_parts; DROP FUNCTION hold()"
_WAITS = (
    "SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database"
    " WHERE NOT granted AND locktype = 'advisory' AND datname = current_database()"
)


async def is_held(connection: psycopg.AsyncConnection) -> bool:
    row = await (await connection.execute(_WAITS)).fetchone()
    return row is not None and row[0] > 0


# Without a process to kill: tests/integration/jobs/test_republishing.py.
@pytest.mark.long
async def test_a_runner_killed_while_it_publishes_leaves_the_rest_to_the_next_and_nothing_twice(
    spark: SparkSession, database: Database, postgres_url: str, tmp_path: Path
) -> None:
    harness = PostgresHarness(postgres_url)
    async with a_bench(spark, database, harness, url=postgres_url, output=tmp_path) as bench:
        service = await with_target(bench)
        wanted = [str(n) for n in range(3 * BATCH_MAX)]
        await bench.log.append(TOPIC, [a_record(body, at_ms(SINCE)) for body in wanted])
        await service.request(TOPIC, AGAIN, since=SINCE, until=UNTIL)
        autonomous = psycopg.AsyncConnection.connect(postgres_url, autocommit=True)
        async with await autonomous as holding:
            await holding.execute(HELD)
            await holding.execute("SELECT pg_advisory_lock(77)")
            namespace = {"ANGELIA_NAMESPACE": harness.namespace}
            async with runner(postgres_url, tmp_path, **namespace) as killed:
                await eventually(partial(is_held, holding), seconds=PATIENCE_S)
                assert len(await published(bench)) == BATCH_MAX
                assert (await standing(service)).done.written == 0
                killed.kill()
                await killed.wait()
            await holding.execute("SELECT pg_advisory_unlock(77)")
            await holding.execute(FREED)

        async def is_done() -> bool:
            return (await standing(service)).job.ended_at is not None

        stopping = asyncio.Event()
        async with listen(postgres_url, [JOBS]) as notices, asyncio.TaskGroup() as tasks:
            settings = Settings(spark_output=str(tmp_path), namespace=harness.namespace)
            engine = SparkEngine(settings, database_url=postgres_url, start=lambda _: spark)
            second = Runner(DatabaseJobs(database, notices, "r-2"), engine)
            tasks.create_task(second.run(stopping))
            await eventually(is_done, seconds=PATIENCE_S)
            stopping.set()
        assert bodies(await published(bench)) == wanted
        task = await standing(service)
        assert (task.job.reason, task.share, task.done.written) == (None, 1.0, len(wanted))
