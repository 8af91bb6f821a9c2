"""What a worker costs while its subscriptions have little or nothing to do, on both logs.

A worker in a process of its own, with 1,000 subscriptions over 200 topics of four partitions, then
10,000: at rest, and with one message a second for 200 of them. CPU is the worker's user and system
time as a share of one core; memory is what it has in RAM. Beside it stands what a user would run
instead: one `KafkaConsumer` for each subscription. Also written to `build/bench/idle*`.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager, closing
from itertools import count
from pathlib import Path
from threading import Event, Thread
from typing import Final

import psutil
import pytest
from kafka import KafkaConsumer

from tests.benchmarks import cores, pace
from tests.benchmarks.figures import Report
from tests.benchmarks.population import Backstage, Population
from tests.benchmarks.stopwatch import stopwatch
from tests.e2e.service import Service
from tests.servers.kafka import SharedBroker

pytestmark = pytest.mark.usefixtures("broker_aside")

BUSY: Final = 200
ROUNDS: Final = 3
ROUND_S: Final = 4.0
# After its start, and after a change of load: the first messages of a topic wait for its leader.
SETTLE_S: Final = 5.0
START_S: Final = 180.0
LOOK_EVERY_S: Final = 0.2
FEW: Final = Population(topics=200, subscriptions=1_000)
MANY: Final = Population(topics=200, subscriptions=10_000)
CONSUMERS: Final = 10

Figures = list[dict[str, float]]


@pytest.mark.parametrize("population", [FEW, MANY], ids=["few", "many"])
async def test_mostly_idle(
    configuration: Mapping[str, str],
    logs: Path,
    request: pytest.FixtureRequest,
    population: Population,
) -> None:
    report = Report(f"idle-{request.node.callspec.id}", _title(population, configuration))
    async with (
        Service(configuration, logs) as service,
        stopwatch() as receiver,
        Backstage.of(configuration) as backstage,
    ):
        await backstage.populate(population, receiver.url)
        worker, took = await started(service, backstage, population.cursors)
        await pace.until(time.monotonic() + SETTLE_S)
        report.add("idle", [{**each, "started in s": took} for each in await measured(worker)])
        async with a_message_a_second(backstage, population):
            await pace.until(time.monotonic() + SETTLE_S)
            before = (await receiver.counts()).taken
            rounds = await measured(worker)
            taken = (await receiver.counts()).taken - before
        delivered = taken / (ROUNDS * ROUND_S)
        report.add(f"{BUSY} at 1/s", [{**each, "deliveries/s": delivered} for each in rounds])
    report.write(plots=("CPU % of a core", "RSS MB"))


def _title(population: Population, configuration: Mapping[str, str]) -> str:
    log = "Kafka" if "ANGELIA_KAFKA_BOOTSTRAP" in configuration else "embedded log"
    return (
        f"A worker with {population.subscriptions:,} subscriptions over {population.topics} topics"
        f" of {population.partitions} partitions, {log}"
    )


async def started(
    service: Service, backstage: Backstage, cursors: int
) -> tuple[psutil.Process, float]:
    """A worker that has all its cursors, and how many seconds it took for them."""
    begun = time.monotonic()
    with cores.on_cores(cores.MEASURED):
        worker = psutil.Process((await service.real_worker()).pid)
    async with asyncio.timeout(START_S):
        while await backstage.cursors() < cursors:
            await pace.until(time.monotonic() + LOOK_EVERY_S)
    return worker, time.monotonic() - begun


async def measured(process: psutil.Process) -> Figures:
    """What it uses, in rounds."""
    rounds = []
    for _ in range(ROUNDS):
        before, begun = process.cpu_times(), time.monotonic()
        await pace.until(begun + ROUND_S)
        after, took = process.cpu_times(), time.monotonic() - begun
        used = after.user + after.system - before.user - before.system
        rounds.append(
            {"CPU % of a core": used / took * 100, "RSS MB": process.memory_info().rss / 1e6}
        )
    return rounds


@asynccontextmanager
async def a_message_a_second(backstage: Backstage, population: Population) -> AsyncIterator[None]:
    """One message a second to each of as many topics as BUSY subscriptions are of."""
    topics = BUSY * population.topics // population.subscriptions

    async with asyncio.TaskGroup() as tasks:

        async def publish() -> None:
            start = time.monotonic()
            for number in count():
                await pace.until(start + number / topics)
                topic = population.topic(number % topics)
                tasks.create_task(backstage.publish(topic, b"x" * 1_000))

        publishing = tasks.create_task(publish())
        yield
        publishing.cancel()


async def test_a_consumer_for_each_subscription_for_comparison(kafka_broker: SharedBroker) -> None:
    process = psutil.Process()
    report = Report("idle-consumers", "One kafka-python consumer for each subscription, idle")
    memory = process.memory_info().rss
    stop = Event()
    with ExitStack() as stack:
        threads = [
            Thread(target=_poll, args=(stack.enter_context(closing(each)), stop))
            for each in (_consumer(kafka_broker, n) for n in range(CONSUMERS))
        ]
        for thread in threads:
            thread.start()
        await pace.until(time.monotonic() + SETTLE_S)
        rounds = await measured(process)
        stop.set()
        for thread in threads:
            await asyncio.to_thread(thread.join)
    grown = (rounds[-1]["RSS MB"] - memory / 1e6) / CONSUMERS
    for scale in (1, FEW.subscriptions):
        report.add(
            f"{scale:,} of them, reckoned from {CONSUMERS}",
            [
                {
                    "CPU % of a core": each["CPU % of a core"] / CONSUMERS * scale,
                    "RSS MB": grown * scale,
                }
                for each in rounds
            ],
        )
    report.write()


def _consumer(broker: SharedBroker, number: int) -> KafkaConsumer:
    return KafkaConsumer(
        "bench.idle", bootstrap_servers=broker.bootstrap, group_id=f"bench.idle{number}"
    )


def _poll(consumer: KafkaConsumer, stop: Event) -> None:
    while not stop.is_set():
        consumer.poll(timeout_ms=500)
