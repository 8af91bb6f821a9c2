"""Results of Spark jobs for the pages that show them, without Spark."""

import asyncio
import math
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Final

from app.config import Settings
from app.domain.job import Job, JobKind, JobResult
from app.postgres.urls import DatabaseUrl
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database, open_database
from app.storage.embedded.configured import database_url
from app.storage.latency_columns import LATENCY
from app.storage.spark.analysis_parts import FAILURES, LEDGER_COUNTS, SIMULATED, UNDELIVERED
from tests.e2e.cli import Place
from tests.fakes.spark_results import Parts, ended, taken

_TOPIC: Final = "looked.orders"
_HOSTILE: Final = "<script>alert(1)</script>\u202e is not a field of an order"
_SIMULATED: Final = {
    "read": 86_400, "matched": 52_000, "added": 2_400, "dropped": 12_000, "bytes": 52_000_000,
    "peakPerSecond": 40, "backlog": 2_100, "delayMs": 95_000, "left": 0, "gone": 3,
    "backlogAtMs": 1_767_268_800_000, "drainedAtMs": 1_767_269_300_500,
}  # fmt: skip
_DROPPED: Final = {
    "message_id": "order-1", "offset": 3, "is_added": False, "partition": 1,
    "timestamp_ms": 1_767_268_800_000, "size": 9,
}  # fmt: skip
_CHOSEN: Final = tuple(
    {"messageId": f"order-{each}", "partition": 0, "offset": each, "timestamp": 1_767_268_800_000,
     "size": 9_000}
    for each in (1, 2)
)  # fmt: skip
# The mean, three percentiles and the maximum of each of the five times, in microseconds.
_TIMES: Final = [
    round(part * step)
    for part in (2_500_000, 400_000, 900_000, 30_000, 1_170_000)
    for step in (1, 0.8, 2, 3, 4)
]


def do_jobs(place: Place, jobs: int) -> None:
    """Do so many jobs that wait at this place, one after the other."""
    # In a thread of its own: a test with a browser may run no event loop.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(_do_jobs, place, jobs).result()


def _do_jobs(place: Place, jobs: int) -> None:
    with database_url(Settings(home=place.home)) as url:
        asyncio.run(_done(url, jobs))


async def _done(url: DatabaseUrl, jobs: int) -> None:
    async with open_database(url) as database:
        for _ in range(jobs):
            job = await taken(database)
            parts, result = _found(job)
            if job.kind is JobKind.LEDGER:
                parts = await _missing(database, job)
            await ended(database, url, job, parts=parts, result=result)


async def _missing(database: Database, job: Job) -> Parts:
    """Counts of a ledger: more messages were passed than were delivered and discarded."""
    topic, name = job.scope.topic, job.scope.subscription
    assert topic is not None
    assert name is not None
    async with database.transaction() as session:
        known = await SubscriptionRepository(session).get(topic, name)
    return {LEDGER_COUNTS: [(known.id, 0, False, True, "EVERYBODY", 5, 0)]}


def _found(job: Job) -> tuple[Parts, JobResult]:
    match job.kind:
        case JobKind.SIMULATION:
            samples = ({**_DROPPED},)
            return _simulated(job), JobResult(counts=_SIMULATED, output="/there", samples=samples)
        case JobKind.LATENCY_ANALYTICS:
            return _latencies(), JobResult()
        case JobKind.RETRANSMISSION:
            return {}, JobResult(counts={"messages": 2, "bytes": 9_070}, samples=_CHOSEN)
        case _:
            return _discards(job), JobResult(counts={"messages": 1_240}, output="/there")


def _simulated(job: Job) -> Parts:
    first = job.scope.start.replace(second=0, microsecond=0)
    minutes = []
    for number in range(900):
        wave = math.sin(number / 150)
        read, matched, now = (round(each * (1.5 + wave)) for each in (600, 360, 420))
        waiting = max(0.0, 2_100 * wave)
        minute = first + timedelta(minutes=number)
        minutes.append((minute, read, matched, now, 0, matched * 1_000, 40, waiting))
    return {SIMULATED: minutes}


def _latencies() -> Parts:
    rows = []
    for name, scale in (("billing", 1.0), ("shipping", 0.4), ("mail", 0.1)):
        counts = (1_240, 1_200, 40, 0, 0, 1_400, round(1_200 / (1 + scale)))
        rows.append(
            (_TOPIC, f"id-{name}", name, *counts, *(round(each * scale) for each in _TIMES))
        )
    return {LATENCY: rows}


def _discards(job: Job) -> Parts:
    last = job.scope.end.replace(minute=0, second=0, microsecond=0)
    end = (last, last, "order-1", "billing", _HOSTILE, "[]")
    late = "timeout after # ms"
    wrong = ("total must be a number: it is a text", "{country, order, total}")
    clusters = [
        (_TOPIC, 400, *wrong, "ONE_SHAPE", 1_730, 3, 1, *end),
        (_TOPIC, 422, _HOSTILE, "{line, order}", "ONE_SHAPE", 840, 3, 1, *end),
        (_TOPIC, None, late, "large", "ONE_SUBSCRIPTION", 400, 1, 4, *end),
    ]
    counts: list[tuple[object, ...]] = []
    for number in range(1, 20):
        hour = last - timedelta(hours=number)
        shown = (number * 37) % 90
        counts.append((_TOPIC, "billing", wrong[0], 400, hour, shown, shown, 9_000))
        counts.append((_TOPIC, "billing", _HOSTILE, 422, hour, 10 * number % 70, number, 9_000))
        counts.append((_TOPIC, "billing", late, None, hour, 7, 70, 900))
    return {FAILURES: clusters, UNDELIVERED: counts}
