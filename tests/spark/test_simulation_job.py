"""Simulations over a real log, on a real Spark and a real PostgreSQL."""

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from app.domain.catalogue.filters import Filter, FilterType
from app.domain.insight.simulation import Differing
from app.domain.job import JobKind, JobResult, JobState
from app.domain.message import Partition
from app.services.insight.simulations import SimulationService, WantedSimulation
from app.storage.insight.jobs import JobRepository
from spark.jobs import simulation
from tests.contract.harness import PostgresHarness
from tests.integration.storage.builders import TOPIC
from tests.spark.archives import archived
from tests.spark.archives import done as archive_done
from tests.spark.retransmissions import Bench, trimmed

# The first test starts Spark, on a machine that may be busy.
pytestmark = pytest.mark.timeout(400)

ODD = Filter(type=FilterType.JSONPATH, path="$.n", matcher="[0-9]*[13579]")
LOW = Filter(type=FilterType.JSONPATH, path="$.n", matcher="[0-9]")


@pytest.fixture
def harness(postgres_url: str) -> PostgresHarness:
    return PostgresHarness(postgres_url)


async def test_another_filter_and_rate_are_tried_on_what_was_published(bench: Bench) -> None:
    """Its first runner, which was believed dead, changes nothing."""
    await bench.change(filters=(LOW,))
    # One partition: then lower offsets are lower numbers.
    await bench.publish(*(b'{"n": %d}' % n for n in range(100)), key=b"k")
    now = datetime.now(UTC)
    service = SimulationService(bench.database, bench.log)
    wanted = WantedSimulation(
        since=now - timedelta(hours=1),
        until=now + timedelta(seconds=1),
        filters=(ODD,),
        rate=1_000,
        in_flight_max=1,
        request_time=timedelta(seconds=10),
    )
    [asked] = (await service.request(TOPIC, bench.subscription.name, wanted)).jobs
    lost = await bench.taken()
    assert lost.kind is JobKind.SIMULATION
    await asyncio.to_thread(simulation.run, bench.spark, bench.work(lost))
    async with bench.database.transaction() as session:
        assert await JobRepository(session).release(lost.claim)
    job = await bench.taken("r-2")
    result = await asyncio.to_thread(simulation.run, bench.spark, bench.work(job))
    assert await bench.finished(job, result)
    await asyncio.to_thread(simulation.run, bench.spark, bench.work(lost))

    seen = await service.get(TOPIC, bench.subscription.name, job_id=asked.id, limit=10)
    assert seen.job.state is JobState.DONE
    assert seen.request.proposal.capacity == 0.1
    counts = dict(seen.job.result.counts)
    assert (counts["read"], counts["matched"]) == (100, 50)
    assert (counts["added"], counts["dropped"]) == (45, 5)
    assert counts["bytes"] == 5 * len(b'{"n": 1}') + 45 * len(b'{"n": 11}')
    # It takes ten seconds for each, and they came within a few.
    assert 40 < counts["backlog"] <= 50
    assert counts["delayMs"] >= counts["backlog"] * 10_000 - 10_000
    assert counts["drainedAtMs"] > counts["backlogAtMs"] + 400_000
    assert counts["left"] > 40
    assert sum(each.matched for each in seen.minutes) == 50
    assert await examples(bench, seen.samples) == {
        True: [*range(11, 51, 2)],
        False: [0, 2, 4, 6, 8],
    }
    kept = bench.spark.read.parquet(f"{result.output}/minutes").selectExpr("sum(read)").first()
    assert kept == (100,)


async def examples(bench: Bench, samples: Sequence[Differing]) -> dict[bool, list[int]]:
    """The numbers that messages have which are added, and not, as the log says of their places."""
    found: dict[bool, list[int]] = {True: [], False: []}
    for each in samples:
        chunk = await bench.log.fetch(Partition(TOPIC, each.partition), each.offset, bytes_max=1)
        [record, *_] = chunk.records
        body = record.value or b""
        assert (each.size, each.timestamp_ms) == (len(body), record.timestamp_ms)
        assert each.message_id == f"m-{body.decode()}"
        found[each.is_added].append(json.loads(body)["n"])
    return found


async def simulated(bench: Bench) -> JobResult:
    """The subscription as it is, over the last hour."""
    service, now = SimulationService(bench.database, bench.log), datetime.now(UTC)
    wanted = WantedSimulation(since=now - timedelta(hours=1), until=now + timedelta(seconds=1))
    await service.request(TOPIC, bench.subscription.name, wanted)
    job = await bench.taken()
    result = await asyncio.to_thread(simulation.run, bench.spark, bench.work(job))
    assert await bench.finished(job, result)
    return result


async def test_where_nothing_was_published_nothing_waits(bench: Bench) -> None:
    result = await simulated(bench)
    assert result.samples == ()
    assert {name for name, count in result.counts.items() if count} == set()


async def test_what_the_log_has_no_more_is_read_in_the_archive(
    bench: Bench, harness: PostgresHarness
) -> None:
    await archived(bench)
    [first, *_] = await bench.publish(*[b"{}"] * 6, key=b"k")
    await archive_done(bench)
    await bench.publish(*[b"{}"] * 4, key=b"k")
    await trimmed(bench, harness, first.partition, offset=5)
    found = (await simulated(bench)).counts
    assert (found["read"], found["gone"]) == (10, 0)
    # Two that nobody has any more.
    await trimmed(bench, harness, first.partition, offset=8)
    found = (await simulated(bench)).counts
    assert (found["read"], found["gone"]) == (8, 2)
