"""CPU per delivery of a whole worker, interpreted and compiled by turns, each in a new process.

`make native` first: else both are interpreted, and it fails.
"""

import json
import os
import subprocess
import sys
from itertools import count
from typing import Final

import pytest

from app.domain.trace import TrackingMode
from tests.benchmarks.drains import Drain
from tests.benchmarks.figures import Report
from tests.benchmarks.receivers import receiver
from tests.servers.kafka import SharedBroker

pytestmark = pytest.mark.usefixtures("broker_aside")

ROUNDS: Final = 3
MESSAGES: Final = 30_000
CPU: Final = "CPU us/delivery"
FASTER: Final = "times interpreted"


def test_native_draining(kafka_broker: SharedBroker, kafka_namespace: str) -> None:
    numbers = count()

    def run(drain: Drain, *, interpreted: bool) -> dict[str, float]:
        namespace = f"{kafka_namespace}{next(numbers)}."
        words = (drain.url, drain.messages, drain.subscriptions, drain.tracking)
        module = ("-m", "tests.benchmarks.drain_process", kafka_broker.bootstrap, namespace)
        command = [sys.executable, *module, *map(str, words)]
        environment = {**os.environ, "ANGELIA_INTERPRETED": str(int(interpreted))}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
        # Its log comes first.
        figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        return figures

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
