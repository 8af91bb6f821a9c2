"""Spark jobs over a log of a million messages and of five: whether time grows as they do.

On two threads of this machine, which the log and PostgreSQL share. An entry of a ledger is about
what has come since the one before. Also written to `build/bench/spark-log.json`.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from app.domain.catalogue.filters import Filter, FilterType
from app.domain.message import NewRecord
from app.services.insight.simulations import SimulationService, WantedSimulation
from app.storage.database import Database
from spark.jobs import simulation
from tests.benchmarks import growth
from tests.benchmarks.figures import Report
from tests.contract.harness import KafkaHarness
from tests.integration.storage.builders import TOPIC
from tests.servers.kafka import SharedBroker
from tests.spark.ledgers import Books
from tests.spark.retransmissions import Bench, a_bench
from tests.spark.small import small_session

APPENDED_AT_ONCE: Final = 5_000
BODY: Final = b'{"n": %d, "filler": "' + b"x" * 80 + b'"}'

_A_TENTH: Final = Filter(type=FilterType.JSONPATH, path="$.n", matcher="[0-9]*7")


# Much of it is appending.
@pytest.mark.timeout(3_600)
async def test_jobs_over_the_log_take_time_that_grows_as_it_does(
    database: Database, kafka_broker: SharedBroker, postgres_url: str, tmp_path: Path
) -> None:
    report = Report("spark-log", "Spark jobs over messages of 100 bytes in Kafka")
    harness = KafkaHarness(kafka_broker.bootstrap)
    seconds = defaultdict[str, dict[int, float]](dict)
    with small_session(tmp_path, conf={}, memory="1g") as session:
        async with a_bench(session, database, harness, url=postgres_url, output=tmp_path) as bench:
            await bench.change(start=dict.fromkeys(range(3), 0))
            jobs = _Jobs(bench)
            await jobs.all_of(1)  # warm
            counted = 1
            for size in growth.SIZES:
                took = await jobs.all_of(size)
                for job, each in took.items():
                    seconds[job][size - counted if job == "ledger" else size] = each
                counted = size
    for job, found in seconds.items():
        growth.add(report, job, found)
    report.write()


class _Jobs:
    """Each kind of job over all there is."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._books = Books(bench)
        self._there = 0

    async def all_of(self, size: int) -> dict[str, float]:
        """Seconds that each takes when there are so many messages."""
        await self._appended(size)
        return {
            "retransmission of all": await self._chosen(size),
            "retransmission of a tenth": await self._chosen(size // 10, filters=(_A_TENTH,)),
            "simulation": await timed(lambda: self._simulated(size)),
            "ledger": await self._counted(),
        }

    async def _appended(self, size: int) -> None:
        for first in range(self._there, size, APPENDED_AT_ONCE):
            numbers = range(first, min(first + APPENDED_AT_ONCE, size))
            records = [NewRecord(value=BODY % number) for number in numbers]
            await self._bench.log.append(TOPIC, records)
        self._there = size

    async def _chosen(self, wanted: int, **selection: Any) -> float:  # noqa: ANN401 - of the request
        asked = await self._bench.asked(**selection)
        job = await self._bench.taken()

        async def choose() -> None:
            assert await self._bench.finished(job, await self._bench.done(job))

        took = await timed(choose)
        assert (await self._bench.seen(asked)).counts.matched == wanted
        return took

    async def _simulated(self, size: int) -> None:
        bench, now = self._bench, datetime.now(UTC)
        service = SimulationService(bench.database, bench.log)
        wanted = WantedSimulation(since=now - timedelta(hours=6), until=now, filters=(_A_TENTH,))
        await service.request(TOPIC, bench.subscription.name, wanted)
        job = await bench.taken()
        result = await asyncio.to_thread(simulation.run, bench.spark, bench.work(job))
        assert await bench.finished(job, result)
        assert (result.counts["read"], result.counts["matched"]) == (size, size // 10)

    async def _counted(self) -> float:
        partitions = await self._bench.log.partitions(TOPIC)
        bounds = await self._bench.log.bounds(partitions)
        for partition, bound in bounds.items():
            await self._books.passed(partition.index, bound.end)
        return await timed(self._books.entry)


async def timed(job: Callable[[], Awaitable[object]]) -> float:
    """How many seconds it takes."""
    started = time.perf_counter()
    await job()
    return time.perf_counter() - started
