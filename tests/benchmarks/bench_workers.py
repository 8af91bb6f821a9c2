"""CPU of a delivery with 1, 2 and 4 worker processes, which share the partitions of one topic.

All workers run on one core, and the receiver, the API and Kafka on the other. So the rate says
little, and the CPU says what each further worker costs. Each round drains a backlog of its own,
from the moment at which the subscription is resumed. Also written to `build/bench/workers*`.
"""

import asyncio
import time
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Final

import psutil
import pytest

from tests.benchmarks import cores, pace
from tests.benchmarks.figures import Report
from tests.benchmarks.open_loop import publish_backlog
from tests.benchmarks.receivers import Receiver, slow_receiver
from tests.e2e.service import Process, Service

pytestmark = pytest.mark.usefixtures("broker_aside")

MESSAGES: Final = 100_000
PUBLISHERS: Final = 4
ROUNDS: Final = 3
WORKERS: Final = (1, 2, 4)
LOOK_EVERY_S: Final = 0.2
# After the partitions were assigned: workers connect, and share the rate of the subscription.
SETTLE_S: Final = 5.0
PATIENCE_S: Final = 120.0
_numbers = count()


async def test_more_workers(on_kafka: Mapping[str, str], logs: Path) -> None:
    report = Report("workers", "A delivery from Kafka, by several workers on one core")
    found: dict[int, list[dict[str, float]]] = {number: [] for number in WORKERS}
    with cores.on_cores(cores.OTHERS):
        async with Service(on_kafka, logs) as service:
            await service.api()
            for _ in range(ROUNDS):
                for number in WORKERS:
                    found[number].append(await _round(service, number))
    for number, rounds in found.items():
        report.add(f"{number} workers", rounds)
    report.write()


async def _round(service: Service, workers: int) -> dict[str, float]:
    topic = await service.topic(f"bench.workers{next(_numbers)}")
    with slow_receiver(0) as receiver:
        path = await service.subscribe(topic, "s", receiver.url)
        await service.set_state(path, "SUSPENDED")
        each = MESSAGES // PUBLISHERS
        await asyncio.gather(*(publish_backlog(service, topic, each) for _ in range(PUBLISHERS)))
        with cores.on_cores(cores.MEASURED):
            running = [await service.real_worker() for _ in range(workers)]
        await service.applied(path)
        await pace.until(time.monotonic() + SETTLE_S)
        figures = await _drained(service, path, receiver, workers=running)
        for process in running:
            await process.stop()
    return figures


async def _drained(
    service: Service, path: str, receiver: Receiver, *, workers: list[Process]
) -> dict[str, float]:
    processes = [psutil.Process(each.pid) for each in workers]
    before, begun = _cpu_s(processes), time.monotonic()
    await service.set_state(path, "ACTIVE")
    async with asyncio.timeout(PATIENCE_S):
        while sum(await receiver.counts()) < MESSAGES:
            await pace.until(time.monotonic() + LOOK_EVERY_S)
    took = time.monotonic() - begun
    return {
        "CPU us/delivery": (_cpu_s(processes) - before) / MESSAGES * 1e6,
        "deliveries/s": MESSAGES / took,
    }


def _cpu_s(processes: list[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)
