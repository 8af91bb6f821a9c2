"""CPU per delivery of a whole worker that drains a backlog, and the plain loop a user would write.

From Kafka and from the embedded log, with nothing and with everything traced, to nginx; beside it
`kafka-python` and one `httpx` client in a loop. Also written to `build/bench/drain*`.
"""

import time
from typing import Final

import httpx
import pytest
import uvloop
from kafka import KafkaConsumer

from app.domain.trace import TrackingMode
from tests.benchmarks import cores
from tests.benchmarks.drains import BODY, Drain, Logs, drained, embedded_logs, kafka_logs
from tests.benchmarks.figures import Report
from tests.benchmarks.receivers import receiver
from tests.fakes.worker import World
from tests.servers.kafka import SharedBroker

pytestmark = pytest.mark.usefixtures("broker_aside")

ROUNDS: Final = 3
MESSAGES: Final = 50_000
PLAIN_MESSAGES: Final = 1_500
ALL: Final = TrackingMode.ALL
PLAIN: Final = "kafka-python + httpx in a loop"
RATIO: Final = "times the plain loop"


def test_draining(kafka_broker: SharedBroker, kafka_namespace: str, postgres_url: str) -> None:
    kafka, embedded = kafka_logs(kafka_broker, kafka_namespace), embedded_logs(postgres_url)
    with receiver() as (name, url):
        one = Drain(url=url, messages=MESSAGES)
        ten = Drain(url=url, messages=MESSAGES // 10, subscriptions=10)
        traced = Drain(url=url, messages=MESSAGES, tracking=ALL)
        cases: dict[str, tuple[Logs, Drain]] = {
            "Kafka": (kafka, one),
            "Kafka, all traced": (kafka, traced),
            "Kafka, 10 subscriptions": (kafka, ten),
            "embedded log": (embedded, one),
            "embedded log, all traced": (embedded, traced),
        }
        found = dict[str, list[dict[str, float]]]()
        for number in range(ROUNDS):
            plain = plain_loop(kafka_broker, f"{kafka_namespace}plain{number}.", url)
            for case, (logs, drain) in cases.items():
                figures = drained(logs, drain)
                figures[RATIO] = plain["CPU us/delivery"] / figures["CPU us/delivery"]
                found.setdefault(case, []).append(figures)
            found.setdefault(PLAIN, []).append(plain)
    report = Report("drain", f"A backlog of 1-KB messages to {name}, 64 in flight")
    for case, rounds in found.items():
        report.add(case, rounds)
    report.write(plots=("CPU us/delivery", "deliveries/s"))


def plain_loop(broker: SharedBroker, namespace: str, url: str) -> dict[str, float]:
    """What a user would write; the first poll, which joins the group, does not count."""
    uvloop.run(_published(kafka_logs(broker, namespace)))
    with cores.on_cores(cores.MEASURED), httpx.Client() as client:
        consumer = KafkaConsumer(
            f"{namespace}0.bench.plain",
            bootstrap_servers=broker.bootstrap,
            group_id=f"{namespace}plain",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        done = 0
        while done == 0:
            done += _post_all(consumer, client, url)
        cpu, start, first = time.process_time(), time.perf_counter(), done
        while done < PLAIN_MESSAGES:
            done += _post_all(consumer, client, url)
        cpu, took = time.process_time() - cpu, time.perf_counter() - start
        consumer.close()
    count = done - first
    return {"CPU us/delivery": cpu / count * 1e6, "deliveries/s": count / took, RATIO: 1.0}


async def _published(logs: Logs) -> None:
    async with logs() as log:
        world = World(log)
        topic = await world.topic("bench.plain", partitions=4)
        for _ in range(PLAIN_MESSAGES // 500):
            await world.publish(topic, *[BODY] * 500)


def _post_all(consumer: KafkaConsumer, client: httpx.Client, url: str) -> int:
    """Deliver what one poll brings, and commit it."""
    records = [
        r for batch in consumer.poll(timeout_ms=500, max_records=100).values() for r in batch
    ]
    for record in records:
        client.post(url, content=record.value, headers={"Content-Type": "application/json"})
    if records:
        consumer.commit()
    return len(records)
