"""A backlog in Kafka delivered by Angelia, and by what a team would write instead, by turns.

Each runs in a process of its own and delivers at least once. Compiled, too, after `make native`.
Also written to `build/bench/peers*`.
"""

import json
import os
import subprocess
import sys
from itertools import count
from typing import Final

import pytest
import uvloop

from app.native import is_current
from tests.benchmarks.bench_native import CPU, drain_apart
from tests.benchmarks.drains import BODY, PARTITIONS, PER_BATCH, Drain, Logs, kafka_logs
from tests.benchmarks.figures import Report
from tests.benchmarks.peers import AIO, CONFLUENT
from tests.benchmarks.receivers import receiver
from tests.fakes.worker import World
from tests.servers.kafka import SharedBroker

pytestmark = pytest.mark.usefixtures("broker_aside")

ROUNDS: Final = int(os.environ.get("BENCH_ROUNDS", "3"))
# So that each takes some seconds.
MESSAGES: Final = {AIO: 20_000, CONFLUENT: 5_000}
OURS: Final = 30_000
TOPIC: Final = "bench.peers"
RATIO: Final = "times Angelia interpreted"


def test_peers(kafka_broker: SharedBroker, kafka_namespace: str) -> None:
    numbers = count()
    found = dict[str, list[dict[str, float]]]()
    with receiver() as (name, url):
        for _ in range(ROUNDS):
            figures = dict[str, dict[str, float]]()
            for interpreted in (True, False) if is_current() else (True,):
                namespace = f"{kafka_namespace}{next(numbers)}."
                drain = Drain(url=url, messages=OURS)
                ours = drain_apart(kafka_broker, namespace, drain, interpreted=interpreted)
                kind = "compiled" if ours.pop("compiled") else "interpreted"
                figures[f"Angelia, {kind}, 64 at a time"] = ours
            for peer, messages in MESSAGES.items():
                namespace = f"{kafka_namespace}{next(numbers)}."
                uvloop.run(_published(kafka_logs(kafka_broker, namespace), messages))
                topic = f"{namespace}0.{TOPIC}"
                words = (peer, kafka_broker.bootstrap, topic, url, str(messages))
                command = [sys.executable, "-m", "tests.benchmarks.peers", *words]
                figures[peer] = json.loads(subprocess.check_output(command))
            least = next(iter(figures.values()))[CPU]
            for row, each in figures.items():
                each[RATIO] = each[CPU] / least
                found.setdefault(row, []).append(each)
    report = Report("peers", f"A backlog of 1-KB messages in Kafka to {name}, at least once")
    for row, rounds in found.items():
        report.add(
            row, [{key: each[key] for key in (CPU, RATIO, "deliveries/s")} for each in rounds]
        )
    report.write(plots=(CPU,))


async def _published(logs: Logs, messages: int) -> None:
    async with logs() as log:
        world = World(log)
        topic = await world.topic(TOPIC, partitions=PARTITIONS)
        for _ in range(messages // PER_BATCH):
            await world.publish(topic, *[BODY] * PER_BATCH)
