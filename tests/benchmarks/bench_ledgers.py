"""The daily entries of a thousand ledgers: of a hundred topics with ten subscriptions each.

A million messages are in the embedded log. CPU is that of Spark with its Python, and of the
process that requests, signs and stores the entries, from the start of Spark on; PostgreSQL's is not
in it. Also written to `build/bench/ledgers.json`.
"""

import asyncio
import time
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import psutil
import psycopg
import pytest
from pyspark.sql import SparkSession

from app.domain.catalogue.subscription import Subscription
from app.domain.commit import Progress
from app.domain.job import JobKind
from app.domain.message import Partition
from app.log.factory import LogLocation, log_at
from app.log.interface import Committed, MessageLog
from app.services.insight.ledger_schedule import LedgerSchedule
from app.services.insight.ledgers import LedgerService
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database
from app.storage.insight.jobs import JobRepository
from spark.jobs import ledger
from spark.store import DatabaseJobs
from spark.work import Work, WorkProgress
from tests.benchmarks.figures import Report
from tests.contract.harness import PostgresHarness
from tests.contract.logs import a_topic
from tests.integration.storage.builders import a_subscription, add_topic
from tests.spark.small import small_session
from tests.spark.taking import LEASE

TOPICS: Final = 100
SUBSCRIPTIONS: Final = 10
PARTITIONS: Final = 3
MESSAGES: Final = 1_000_000
EACH: Final = MESSAGES // TOPICS // PARTITIONS

# As in bench_archive.py: a hundred bytes each.
_FILL: Final = """
INSERT INTO log_records (topic_id, partition, "offset", timestamp_ms, value, headers)
SELECT p.topic_id, p.partition, n, 1767268800000 + n,
  convert_to('{"order": ' || n || ', "text": "' || repeat('x', 70) || '"}', 'UTF8'),
  '\\x0002000000086964'::bytea || convert_to(lpad(n::text, 8, '0'), 'UTF8')
FROM log_partitions p, generate_series(0, %(each)s - 1) AS n
"""


# Much of it is filling the log.
@pytest.mark.timeout(3_600)
async def test_a_thousand_daily_entries(
    database: Database, postgres_url: str, tmp_path: Path
) -> None:
    report = Report("ledgers", "1,000 daily entries: 100 topics with 10 subscriptions each")
    harness = PostgresHarness(postgres_url)
    async with harness.opened() as log:
        await filled(database, log, postgres_url)
        schedule = LedgerSchedule(database, LedgerService(database, log))
        place = LogLocation(namespace=harness.namespace)
        begun, cpu = time.perf_counter(), cpu_s()
        async with AsyncExitStack() as stack:
            session = stack.enter_context(small_session(tmp_path, conf={}, memory="1g"))
            started = cpu_s() - cpu
            jobs = await made(database, schedule, session, place=place, url=postgres_url)
            figures = {
                "CPU s": cpu_s() - cpu,
                "of it, to start Spark": started,
                "s": time.perf_counter() - begun,
                "jobs": float(jobs),
            }
    report.add("entries of 1,000 subscriptions", [figures])
    report.write()


def cpu_s() -> float:
    """Seconds of CPU of this process, and of all that it has started and that is still there."""
    own = psutil.Process()
    families = [each.cpu_times() for each in (own, *own.children(recursive=True))]
    return sum(
        each.user + each.system + each.children_user + each.children_system for each in families
    )


async def filled(database: Database, log: MessageLog, url: str) -> None:
    """Topics with messages, of which all subscriptions have finished nine of ten."""
    subscriptions: list[Subscription] = []
    for number in range(TOPICS):
        name = f"shop.topic{number}"
        await log.create_topic(a_topic(name, partitions=PARTITIONS))
        async with database.transaction() as session:
            await add_topic(session, name, partitions=PARTITIONS)
            start = dict.fromkeys(range(PARTITIONS), 0)
            subscriptions += [
                await SubscriptionRepository(session).add(
                    a_subscription(f"sub{each}", topic=name, start=start)
                )
                for each in range(SUBSCRIPTIONS)
            ]
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await connection.execute(_FILL, {"each": EACH})
        await connection.execute("UPDATE log_partitions SET next_offset = %s", (EACH,))
    assert not await log.commit({each.group: _finished(each) for each in subscriptions})


def _finished(subscription: Subscription) -> dict[Partition, Committed]:
    offset = EACH * 9 // 10
    progress = Progress(subscription_id=subscription.id, offset=offset, delivered=offset)
    committed = Committed(offset, progress.metadata())
    return {Partition(subscription.topic, index): committed for index in range(PARTITIONS)}


async def made(
    database: Database,
    schedule: LedgerSchedule,
    session: SparkSession,
    *,
    place: LogLocation,
    url: str,
) -> int:
    """Request and make all entries, as a runner does; how many jobs it were."""
    store = DatabaseJobs(
        database,
        notices=None,  # type: ignore[arg-type]  # not used
        runner="r-1",
        open_a_log=lambda: log_at(url, place),
    )
    counts: list[int] = []
    while sum(counts) < TOPICS * SUBSCRIPTIONS:
        await store.beat()
        await schedule.look(datetime.now(UTC) + timedelta(days=1))
        async with database.transaction() as transaction:
            jobs = JobRepository(transaction)
            taken = [await jobs.take("r-1", LEASE, kinds=[JobKind.LEDGERS]) for _ in range(4)]
        assert any(taken)
        for job in filter(None, taken):
            work = Work(
                database_url=url, scope=job.scope, output="", claim=job.claim,
                progress=WorkProgress(), log=place,
            )  # fmt: skip
            result = await asyncio.to_thread(ledger.run, session, work)
            assert await store.finish(job.claim, result)
            counts.append(result.counts["entries"])
    assert sum(counts) == TOPICS * SUBSCRIPTIONS
    return len(counts)
