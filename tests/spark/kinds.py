"""One requested job of each kind, with what is there to do, and how each should end."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from app.domain.catalogue.filters import Filter, FilterType
from app.domain.job import Job, JobKind, JobScope, JobState
from app.services.insight.jobs import JobService
from app.services.insight.simulations import SimulationService, WantedSimulation
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.insight.jobs import JobRepository
from tests.integration.storage.builders import NOON, TOPIC, a_subscription, an_undelivered
from tests.spark import test_latency_job, test_undelivered_job
from tests.spark.archives import SCOPE, archived
from tests.spark.ledgers import Books
from tests.spark.retransmissions import Bench
from tests.spark.test_offline_retransmission import (
    AGAIN,
    SINCE,
    UNTIL,
    a_record,
    at_ms,
    bodies,
    published,
    with_target,
)

HOUR = timedelta(hours=1)
# Judged by code of subscriptions, on executors.
ODD = Filter(type=FilterType.JSONPATH, path="$.n", matcher="[0-9]*[13579]")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedJob:
    """The id of a job, and some of the counts that it should end with."""

    id: str
    counts: Mapping[str, int]


async def one_of_each(bench: Bench) -> Mapping[JobKind, RequestedJob]:
    """Ask for a job of each kind, about one topic in which each has something to find."""
    await archived(bench)
    old = [a_record(f"old {number}", at_ms(SINCE, number)) for number in range(10)]
    offline = await with_target(bench)
    await bench.log.append(TOPIC, old)
    await bench.publish(*(b'{"n": %d}' % number for number in range(40)))
    ledgers = await _ledgers(bench)
    await offline.request(TOPIC, AGAIN, since=SINCE, until=UNTIL)
    retransmission = await bench.asked(filters=(ODD,), since=datetime.now(UTC) - HOUR)
    archive = await JobService(bench.database).request(JobKind.ARCHIVE, replace(SCOPE, topic=TOPIC))
    [task] = (await offline.newest(limit=10)).tasks
    return {
        **await _analyses(bench),
        **ledgers,
        JobKind.RETRANSMISSION: RequestedJob(id=retransmission.id, counts={"messages": 20}),
        JobKind.OFFLINE_RETRANSMISSION: RequestedJob(id=task.job.id, counts={"written": 10}),
        JobKind.ARCHIVE: RequestedJob(id=archive.jobs[0].id, counts={"messages": 50}),
    }


async def _analyses(bench: Bench) -> Mapping[JobKind, RequestedJob]:
    discards = [an_undelivered(offset, discarded_at=NOON) for offset in range(30)]
    await test_undelivered_job.recorded(bench.database, discards)
    start = datetime.now(UTC).replace(minute=30, second=0, microsecond=0) - 3 * HOUR
    await test_latency_job.recorded(bench.database, start)
    async with bench.database.transaction() as session:
        jobs = JobRepository(session)
        undelivered = await jobs.add(JobKind.UNDELIVERED_ANALYTICS, test_undelivered_job.DAY)
        scope = JobScope(start=start, end=start + HOUR)
        latency = await jobs.add(JobKind.LATENCY_ANALYTICS, scope)
    now = datetime.now(UTC)
    wanted = WantedSimulation(since=now - HOUR, until=now + timedelta(seconds=1), filters=(ODD,))
    simulations = SimulationService(bench.database, bench.log)
    [simulation] = (await simulations.request(TOPIC, bench.subscription.name, wanted)).jobs
    return {
        JobKind.UNDELIVERED_ANALYTICS: RequestedJob(id=undelivered.id, counts={"messages": 30}),
        JobKind.LATENCY_ANALYTICS: RequestedJob(
            id=latency.id, counts={"messages": 23, "subscriptions": 2}
        ),
        JobKind.SIMULATION: RequestedJob(id=simulation.id, counts={"read": 40, "matched": 20}),
    }


async def _ledgers(bench: Bench) -> Mapping[JobKind, RequestedJob]:
    start = dict.fromkeys(range(3), 0)
    await bench.change(start=start)
    async with bench.database.transaction() as session:
        other = await SubscriptionRepository(session).add(a_subscription("audit", start=start))
    books = Books(bench)
    one = await books.asked()
    many = await books.service.request_all([other.id])
    assert many is not None
    return {
        JobKind.LEDGER: RequestedJob(id=one.id, counts={"entries": 1, "records": 50}),
        JobKind.LEDGERS: RequestedJob(id=many.id, counts={"entries": 1, "records": 50}),
    }


async def job_of(bench: Bench, job_id: str) -> Job:
    async with bench.database.transaction() as session:
        return await JobRepository(session).get(job_id)


async def is_done(bench: Bench, job_id: str) -> bool:
    """Whether it is DONE; an error if it has failed."""
    job = await job_of(bench, job_id)
    assert job.state is not JobState.FAILED, job
    return job.state is JobState.DONE


async def require_as_wanted(bench: Bench, wanted: Mapping[JobKind, RequestedJob]) -> None:
    """Each has found what there was, and done it."""
    for kind, each in wanted.items():
        job = await job_of(bench, each.id)
        assert (job.kind, job.state) == (kind, JobState.DONE)
        assert each.counts.items() <= dict(job.result.counts).items(), job
    assert bodies(await published(bench)) == [f"old {number}" for number in range(10)]
