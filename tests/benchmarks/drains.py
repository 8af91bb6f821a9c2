"""Draining a backlog by a whole worker in this process; the control plane is in memory.

Reading, cursors, limiter, tracker, deadlines, counters, traces and commits are those of production.
CPU is this process's user and system time, all its threads together.
"""

import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from itertools import count
from typing import Final

import psutil
import uvloop

from app.domain.catalogue.subscription import Subscription
from app.domain.trace import TrackingMode
from app.log.interface import MessageLog
from app.log.kafka import kafka_log
from app.log.postgres import postgres_log
from tests.benchmarks import cores
from tests.fakes.egress import LOOPBACK
from tests.fakes.worker import World, delivered
from tests.servers.kafka import SharedBroker
from workers.delivery.sender import Sender
from workers.lifecycle import raise_file_limit

BODY: Final = b"x" * 1_000
PER_BATCH: Final = 500
PARTITIONS: Final = 4

# A log of its own for each run: a worker that starts finds nothing of the runs before.
Logs = Callable[[], AbstractAsyncContextManager[MessageLog]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """So many messages to each of so many subscriptions of one topic."""

    url: str
    messages: int
    subscriptions: int = 1
    in_flight: int = 64
    tracking: TrackingMode = TrackingMode.OFF


def kafka_logs(broker: SharedBroker, namespace: str) -> Logs:
    """Logs in Kafka."""
    numbers = count()
    return lambda: kafka_log(broker.bootstrap, namespace=f"{namespace}{next(numbers)}.")


def embedded_logs(url: str) -> Logs:
    """Logs in PostgreSQL."""
    numbers = count()
    return lambda: postgres_log(url, namespace=f"r{next(numbers)}.")


def drained(logs: Logs, drain: Drain) -> dict[str, float]:
    """Publish the backlog, let a worker deliver it, and say what that cost."""
    raise_file_limit()
    with cores.on_cores(cores.MEASURED):
        return uvloop.run(_drained(logs, drain))


async def _drained(logs: Logs, drain: Drain) -> dict[str, float]:
    async with logs() as log, Sender(egress=LOOPBACK) as sender:
        world = World(log, sender=sender)
        subscriptions = await _backlog(world, drain)
        first = await _canary(world, drain)
        async with world.worker():
            # Now it has its partitions: its start is not measured.
            await world.plane.until(lambda: delivered(world, first) == 1)
            fetched = log.stats.fetched_records
            cpu, start = time.process_time(), time.perf_counter()
            ids = [world.resume(each).id for each in subscriptions]
            await world.plane.until(
                lambda: all(delivered(world, each) == drain.messages for each in ids)
            )
            cpu, took = time.process_time() - cpu, time.perf_counter() - start
            reads = (log.stats.fetched_records - fetched) / drain.messages
    return _figures(drain, cpu=cpu, took=took) | {"log read times": reads}


async def _canary(world: World, drain: Drain) -> str:
    """The id of a subscription with one message, which is delivered when the worker is there."""
    topic = await world.topic("bench.first", partitions=1)
    subscription = await world.subscribe(topic, endpoint=drain.url)
    await world.publish(topic, BODY)
    return subscription.id


async def _backlog(world: World, drain: Drain) -> list[Subscription]:
    """The suspended subscriptions of a topic that has all its messages already."""
    topic = await world.topic("bench.drain", partitions=PARTITIONS)
    subscriptions = []
    for number in range(drain.subscriptions):
        subscription = await world.subscribe(
            topic, f"s{number}", endpoint=drain.url, in_flight_max=drain.in_flight
        )
        subscriptions.append(world.suspend(replace(subscription, tracking=drain.tracking)))
    for first in range(0, drain.messages, PER_BATCH):
        await world.publish(topic, *[BODY] * min(PER_BATCH, drain.messages - first))
    return subscriptions


def _figures(drain: Drain, *, cpu: float, took: float) -> dict[str, float]:
    deliveries = drain.messages * drain.subscriptions
    return {
        "CPU us/delivery": cpu / deliveries * 1e6,
        "deliveries/s": deliveries / took,
        "RSS MB": psutil.Process().memory_info().rss / 1e6,
    }
