"""CPU of delivering and of publishing, interpreted and compiled by turns, each in a new process.

`make native` first: else both are interpreted, and it fails.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Final

import psutil
import pytest

from app.domain.trace import TrackingMode
from tests.benchmarks import cores
from tests.benchmarks.bench_ordinary_day import versions
from tests.benchmarks.bench_publish import LINES, SINGLE, TOPIC, Case, Target, measured
from tests.benchmarks.drains import Drain
from tests.benchmarks.figures import Report
from tests.benchmarks.receivers import receiver
from tests.e2e.service import Service
from tests.servers.kafka import SharedBroker
from tests.servers.warm import Version, warm

pytestmark = pytest.mark.usefixtures("broker_aside")

ROUNDS: Final = 3
MESSAGES: Final = 30_000
CPU: Final = "CPU us/delivery"
FASTER: Final = "times interpreted"
PUBLISHING: Final = (Case(SINGLE, 1), Case(SINGLE, 64), Case(LINES, 16))


def drain_apart(
    broker: SharedBroker, namespace: str, drain: Drain, *, interpreted: bool
) -> dict[str, float]:
    """The figures of a drain in a new process, and whether its code was `compiled`."""
    words = (drain.url, drain.messages, drain.subscriptions, drain.tracking)
    module = ("-m", "tests.benchmarks.drain_process", broker.bootstrap, namespace)
    command = [sys.executable, *module, *map(str, words)]
    environment = {**os.environ, "ANGELIA_INTERPRETED": str(int(interpreted))}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    # Its log comes first.
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def test_native_draining(kafka_broker: SharedBroker, kafka_namespace: str) -> None:
    numbers = count()

    def run(drain: Drain, *, interpreted: bool) -> dict[str, float]:
        namespace = f"{kafka_namespace}{next(numbers)}."
        return drain_apart(kafka_broker, namespace, drain, interpreted=interpreted)

    with receiver() as (name, url):
        cases = {
            "1 subscription": Drain(url=url, messages=MESSAGES),
            "all traced": Drain(url=url, messages=MESSAGES, tracking=TrackingMode.ALL),
            "10 subscriptions": Drain(url=url, messages=MESSAGES // 10, subscriptions=10),
        }
        found = dict[str, list[dict[str, float]]]()
        for _ in range(ROUNDS):
            for case, drain in cases.items():
                plain, compiled = run(drain, interpreted=True), run(drain, interpreted=False)
                assert (plain.pop("compiled"), compiled.pop("compiled")) == (False, True)
                plain[FASTER], compiled[FASTER] = 1.0, plain[CPU] / compiled[CPU]
                found.setdefault(f"{case}, interpreted", []).append(plain)
                found.setdefault(f"{case}, compiled", []).append(compiled)
    report = Report("native", f"A backlog of 1-KB messages in Kafka to {name}, 64 in flight")
    for case, rounds in found.items():
        report.add(case, rounds)
    report.write(plots=(CPU,))


async def test_native_publishing(on_kafka: Mapping[str, str], logs: Path) -> None:
    found = dict[str, list[dict[str, float]]]()
    async with Service(on_kafka, logs) as service:
        await service.api()
        await service.topic(TOPIC)
    for number in range(ROUNDS):
        for name, version in versions().items():
            place = logs / f"{number}-{name}"
            place.mkdir()
            for case, figures in (await published(on_kafka, place, version)).items():
                found.setdefault(f"{case.row}, {name}", []).append(figures)
    report = Report("native-publishing", "Publishing 1-KB messages on Kafka, `ack: ALL`")
    for row in sorted(found):
        report.add(row, found[row])
    report.write(plots=("CPU us/message",))


async def published(
    on_kafka: Mapping[str, str], logs: Path, version: Version
) -> dict[Case, dict[str, float]]:
    """What the code of the version takes of the API's CPU, in a new process."""
    parent = warm(("app.main", "app.log.kafka"), version)
    async with Service(on_kafka, logs, parent=parent) as service:
        api = await service.api()
        cores.move(api.pid, cores.MEASURED)
        target = Target(service.port, psutil.Process(api.pid))
        return {case: await measured(target, case) for case in PUBLISHING}
