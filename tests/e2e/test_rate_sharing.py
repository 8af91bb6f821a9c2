"""One rate, three worker processes: who has the traffic gets it, and together they keep to it."""

import asyncio
import os
import signal
from bisect import bisect_right
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path

import pytest

from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database, open_database
from app.storage.health.statuses import StatusRepository
from tests.e2e.service import Process, Service, eventually, running
from tests.e2e.test_scaling import PARTITIONS, shared_by
from tests.fakes.subscriber import Subscriber

TOPIC = "shop.orders"
LIMIT = 50
# How many wait at least: there is always something to send.
BACKLOG = 6 * LIMIT
WINDOW_S = 3.0
# Requests are counted where they arrive: some may be under way, and the receiver may be late.
UNDER_WAY_S = 0.5


def most_within(seconds: float, times: list[float]) -> int:
    return max(index + 1 - bisect_right(times, at - seconds) for index, at in enumerate(times))


async def output_rates(database: Database) -> dict[str, float]:
    """What each worker says that it may send, by its id."""
    async with database.transaction() as session:
        subscription = await SubscriptionRepository(session).get(TOPIC, "s")
        loads = await StatusRepository(session).loads(subscription.id, timedelta(seconds=5))
    return {load.worker_id: load.output.rate for load in loads}


@asynccontextmanager
async def traffic(service: Service, receiver: Subscriber) -> AsyncIterator[Sequence[str]]:
    """The ids of what is published in the block, all with one key and so in one partition."""
    published: list[str] = []

    async def publish() -> None:
        while True:
            first = len(published)
            numbers = range(first, first + BACKLOG)
            bodies = ((b'{"number": %d}' % number, "one of 12") for number in numbers)
            published.extend(await service.publish_all(TOPIC, bodies))
            await receiver.wait_for(first, 60)

    publishing = asyncio.create_task(publish())
    try:
        yield published
    finally:
        publishing.cancel()
        with suppress(asyncio.CancelledError):
            await publishing


async def busy_worker(database: Database, processes: list[Process]) -> Process:
    """The process that has nearly the whole rate, as soon as one has."""

    rates: dict[str, float] = {}

    async def found() -> bool:
        nonlocal rates
        rates = await output_rates(database)
        return max(rates.values(), default=0) >= 0.9 * LIMIT

    await eventually(found)
    busy = max(rates, key=lambda worker_id: rates[worker_id])
    return next(process for process in processes if f"-{process.pid}-" in busy)


@pytest.mark.long
async def test_one_with_all_the_traffic_gets_the_rate_and_nobody_exceeds_it_when_one_hangs(
    on_embedded_log: Mapping[str, str], logs: Path
) -> None:
    async with (
        running(on_embedded_log, logs, workers=3) as service,
        Subscriber() as receiver,
        open_database(on_embedded_log["ANGELIA_DATABASE_URL"]) as database,
    ):
        await service.topic(TOPIC, partitions=PARTITIONS)
        path = await service.subscribe(TOPIC, "s", receiver.url, rate=LIMIT)
        await shared_by(on_embedded_log, 3)
        async with traffic(service, receiver) as published:
            hanging = await busy_worker(database, service.processes[1:])
            await receiver.wait_for(len(receiver.received) + 4 * LIMIT, 60)
            before = len(receiver.received)
            os.kill(hanging.pid, signal.SIGSTOP)
            # Long enough that the others took its partitions over, and one of them has the rate.
            await receiver.wait_for(before + 8 * LIMIT, 60)
            os.kill(hanging.pid, signal.SIGCONT)
        await service.accounted(path, len(published))
    times = sorted(request.at for request in receiver.received)
    assert most_within(WINDOW_S, times) <= LIMIT * (WINDOW_S + UNDER_WAY_S + service.beat.late_s)
    assert most_within(WINDOW_S, times) >= 0.9 * LIMIT * WINDOW_S
