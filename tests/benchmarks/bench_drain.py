"""CPU per delivery of a whole worker that drains a backlog, and the plain loop a user would write.

One process on one loop: reading, cursors, limiter, tracker, deadlines, counters and commits are
those of production; the control plane is in memory, the receiver is nginx (or the tests' own, in a
process of its own). Beside it `kafka-python` and one `httpx` client in a loop. CPU is this
process's user and system time. Also written to `build/bench/drain.json`.
"""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import httpx
import pytest
import uvloop
from kafka import KafkaConsumer

from app.log.interface import MessageLog
from app.log.kafka import kafka_log
from app.log.postgres import postgres_log
from tests.benchmarks.bench_transport import receiver
from tests.fakes.egress import LOOPBACK
from tests.fakes.worker import World, delivered
from tests.servers.kafka import KafkaBroker
from workers.delivery.sender import Sender

REPORT: Final = Path("build/bench/drain.json")
MESSAGES: Final = 60_000
PLAIN_MESSAGES: Final = 2_000
BODY: Final = b"x" * 1_000
IN_FLIGHT: Final = 64

_figures: dict[str, Mapping[str, float]] = {}


def report(name: str, *, deliveries: int, cpu: float, took: float) -> None:
    """Print what one run cost, and write all so far down."""
    _figures[name] = {"cpu_us": cpu / deliveries * 1e6, "per_second": deliveries / took}
    print(f"\n{name:40} {cpu / deliveries * 1e6:8.1f} us/delivery {deliveries / took:8.0f}/s")
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text(json.dumps(_figures, indent=2) + "\n")


async def drain(log: MessageLog, url: str, *, name: str, subscriptions: int) -> None:
    """Publish a backlog, then let a worker deliver it."""
    async with Sender(egress=LOOPBACK) as sender:
        world = World(log, sender=sender)
        topic = await world.topic(partitions=4)
        subscribed = [
            await world.subscribe(topic, f"s{n}", endpoint=url, in_flight_max=IN_FLIGHT)
            for n in range(subscriptions)
        ]
        messages = MESSAGES // subscriptions
        for _ in range(messages // 500):
            await world.publish(topic, *[BODY] * 500)
        total = messages // 500 * 500
        cpu, start = time.process_time(), time.perf_counter()
        async with world.worker():
            await world.plane.until(
                lambda: all(delivered(world, s.id) == total for s in subscribed)
            )
            cpu, took = time.process_time() - cpu, time.perf_counter() - start
    report(name, deliveries=total * subscriptions, cpu=cpu, took=took)


@pytest.mark.parametrize("subscriptions", [1, 10])
def test_draining_kafka(
    kafka_broker: KafkaBroker, kafka_namespace: str, subscriptions: int
) -> None:
    async def run() -> None:
        async with kafka_log(kafka_broker.bootstrap, namespace=kafka_namespace) as log:
            await drain(
                log, url, name=f"Kafka, {subscriptions} subscriptions", subscriptions=subscriptions
            )

    with receiver() as (_, url):
        uvloop.run(run())


def test_draining_the_embedded_log(postgres_url: str) -> None:
    async def run() -> None:
        async with postgres_log(postgres_url, namespace="") as log:
            await drain(log, url, name="embedded log, 1 subscription", subscriptions=1)

    with receiver() as (_, url):
        uvloop.run(run())


def test_a_plain_loop_for_comparison(kafka_broker: KafkaBroker, kafka_namespace: str) -> None:
    async def publish() -> None:
        async with kafka_log(kafka_broker.bootstrap, namespace=kafka_namespace) as log:
            world = World(log)
            topic = await world.topic(partitions=4)
            for _ in range(PLAIN_MESSAGES // 500):
                await world.publish(topic, *[BODY] * 500)

    uvloop.run(publish())
    consumer = KafkaConsumer(
        f"{kafka_namespace}shop.orders",
        bootstrap_servers=kafka_broker.bootstrap,
        group_id=f"{kafka_namespace}plain",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    with receiver() as (_, url), httpx.Client() as client:
        done = 0
        while done == 0:
            done += post_all(consumer, client, url)
        cpu, start, first = time.process_time(), time.perf_counter(), done
        while done < PLAIN_MESSAGES:
            done += post_all(consumer, client, url)
        cpu, took = time.process_time() - cpu, time.perf_counter() - start
    consumer.close()
    report("plain kafka-python + httpx loop", deliveries=done - first, cpu=cpu, took=took)


def post_all(consumer: KafkaConsumer, client: httpx.Client, url: str) -> int:
    """Deliver what one poll brings, and commit it."""
    records = [
        r for batch in consumer.poll(timeout_ms=500, max_records=100).values() for r in batch
    ]
    for record in records:
        client.post(url, content=record.value, headers={"Content-Type": "application/json"})
    if records:
        consumer.commit()
    return len(records)
