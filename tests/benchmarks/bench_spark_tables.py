"""Spark jobs over a million rows of PostgreSQL and over five: whether time grows as they do.

Undelivered messages of 200 bytes, and traces of as many deliveries.
On two threads of this machine, which PostgreSQL shares. Also written to
`build/bench/spark-tables.json`.
"""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import psycopg
import pytest
from pyspark.sql import SparkSession

from app.domain.job import JobResult, JobScope
from app.domain.message import Partition
from app.domain.trace import TraceSource
from app.storage.database import Database
from app.tracing.packs import Pack, TraceRow
from spark.jobs import latency_analytics, undelivered_analytics
from spark.work import Work, WorkProgress
from tests.benchmarks import growth
from tests.benchmarks.figures import Report
from tests.spark.small import small_session
from tests.spark.test_undelivered_job import DAY
from workers.recorder.traces import DatabaseTraces

PARTITION: Final = Partition("angelia.traces", 0)
ROWS: Final = 500
PACKS_AT_ONCE: Final = 40
ROOM: Final = 100 << 30

Run = Callable[[SparkSession, Work], JobResult]

# As discards of twenty subscriptions with a few errors and shapes.
_FILL: Final = """
INSERT INTO undelivered (subscription_id, topic, subscription, message_id, discarded_at, reason,
  status, attempts, partition, "offset", body, headers)
SELECT 's-' || n %% 20, 'shop.orders', 'subscriber-' || n %% 20, 'm-' || n,
  '2026-01-01T00:00:00Z'::timestamptz + n %% 80000 * interval '1 second',
  'order ' || n || ' failed with status code:' || 400 + n %% 5, 400 + n %% 5, 1 + n %% 3, 0, n,
  convert_to(
    '{"order": ' || n || ', "field-' || n %% 7 || '": "' || repeat('x', 160) || '"}', 'UTF8'
  ),
  '[]'
FROM generate_series(1, %s) AS n
"""


# Much of it is filling tables.
@pytest.mark.timeout(3_600)
async def test_jobs_over_tables_take_time_that_grows_as_they_do(
    database: Database, postgres_url: str, tmp_path: Path
) -> None:
    report = Report("spark-tables", "Spark jobs over tables of PostgreSQL")
    now = datetime.now(UTC)
    lately = JobScope(start=now - timedelta(hours=2), end=now, slo=timedelta(seconds=1))
    undelivered, latency = dict[int, float](), dict[int, float]()
    traces = _Traces(database, lately)
    with small_session(tmp_path, conf={}, memory="1g") as session:
        jobs = _Jobs(session, postgres_url, tmp_path)
        for size in (10_000, *growth.SIZES):
            filled(postgres_url, size)
            undelivered[size] = jobs.timed(undelivered_analytics.run, DAY, size)
            await traces.grow(size)
            latency[size] = jobs.timed(latency_analytics.run, lately, size)
    for job, seconds in (("undelivered", undelivered), ("latency", latency)):
        growth.add(report, job, {size: seconds[size] for size in growth.SIZES})
    report.write()


class _Jobs:
    def __init__(self, session: SparkSession, url: str, place: Path) -> None:
        self._session = session
        self._url = url
        self._place = place

    def timed(self, run: Run, scope: JobScope, messages: int) -> float:
        """How many seconds it takes; it finds so many."""
        work = Work(
            database_url=self._url,
            scope=scope,
            output=f"{self._place}/{run.__module__}",
            claim=None,
            progress=WorkProgress(),
        )
        started = time.perf_counter()
        assert run(self._session, work).counts["messages"] == messages
        return time.perf_counter() - started


def filled(url: str, size: int) -> None:
    """So many messages are not delivered."""
    with psycopg.connect(url) as connection:
        connection.execute("TRUNCATE undelivered")
        connection.execute(_FILL, (size,))


class _Traces:
    """Deliveries to ten subscriptions, in equal steps from the start of a scope to its end."""

    def __init__(self, database: Database, scope: JobScope) -> None:
        self._store = DatabaseTraces(database, kept=timedelta(days=7), bytes_max=ROOM)
        self._first = int(scope.start.timestamp() * 1e6)
        self._length = (scope.end - scope.start) / timedelta(microseconds=1)
        self._recorded = self._there = 0

    async def grow(self, size: int) -> None:
        """Record what is lacking to so many."""
        await self._store.positions()
        some: list[Pack] = []
        for pack in self._packs(size):
            some.append(pack)
            if len(some) == PACKS_AT_ONCE:
                await self._record(some)
        await self._record(some)

    async def _record(self, some: list[Pack]) -> None:
        self._recorded += len(some)
        await self._store.record(some, PARTITION, self._recorded)
        some.clear()

    def _packs(self, size: int) -> Iterator[Pack]:
        sources = {
            n: TraceSource(topic="shop.orders", subscription_id=f"s-{n}", subscription=f"to-{n}")
            for n in range(10)
        }
        step = self._length / size
        for first in range(self._there, size, ROWS):
            numbers = range(first, min(first + ROWS, size))
            rows = [self._delivery(n, int(self._first + (n - self._there) * step)) for n in numbers]
            yield Pack("w-1", rows[-1].at, 0, "", sources, rows)
        self._there = size

    @staticmethod
    def _delivery(number: int, at: int) -> TraceRow:
        return TraceRow(
            source=number % 10,
            at=at,
            status="SUCCESS",
            message_id=f"m-{number}",
            partition=number % 4,
            offset=number,
            attempt=1,
            status_code=200,
            reason="",
            queued=1_500 + number % 1_000,
            waited=250,
            connect=None,
            took=2_000 + number % 500,
            address="",
            batch_id="",
            retransmission="",
        )
