"""A backlog behind live traffic, while busy processes take the worker's core, on both logs.

A subscription may take 200 messages a second and is 12,000 behind; 60 more are published each
second. The worker has one core together with so many processes that never wait. What it delivers a
second should be the limit: that costs less CPU than the worker's fair part of the core.
"""

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil
import pytest

from tests.benchmarks import cores, pace
from tests.benchmarks.figures import Report
from tests.benchmarks.open_loop import publish_backlog, publishing
from tests.benchmarks.receivers import receiver
from tests.e2e.service import Service

NEIGHBOURS: Final = (0, 1, 4)
ROUNDS: Final = 2
BACKLOG: Final = 12_000
RATE: Final = 200
LIVE: Final = 60
# Until the adaptive rate is at the limit; then it is measured.
RISES_S: Final = 10.0
MEASURED_S: Final = 20.0


async def test_a_backlog_on_a_crowded_core(
    configuration: Mapping[str, str], logs: Path, request: pytest.FixtureRequest
) -> None:
    found: dict[int, list[dict[str, float]]] = {count: [] for count in NEIGHBOURS}
    with receiver() as (_, url):
        async with Service(configuration, logs) as service:
            await service.api()
            worker = psutil.Process((await service.worker()).pid)
            cores.move(worker.pid, cores.MEASURED)
            for number in range(ROUNDS * len(NEIGHBOURS)):
                count = NEIGHBOURS[number % len(NEIGHBOURS)]
                topic = await service.topic(f"bench.crowded{number}")
                behind = await a_backlog(service, topic, url)
                with neighbours(count):
                    found[count].append(await one_round(service, behind, worker))
    name = request.node.callspec.id
    report = Report(f"crowded-{name}", f"Limit {RATE}/s, {LIVE}/s live, on {name}")
    for count, rounds in found.items():
        report.add(f"{count} busy neighbours", rounds)
    report.write(plots=["delivered/s"])


async def a_backlog(service: Service, topic: str, url: str) -> str:
    """The path of a suspended subscription that is behind."""
    path = await service.subscribe(topic, "behind", url, rate=RATE, adaptiveRate=True)
    await service.set_state(path, "SUSPENDED")
    await publish_backlog(service, topic, BACKLOG)
    return path


async def one_round(service: Service, path: str, worker: psutil.Process) -> dict[str, float]:
    """Messages delivered a second, and the worker's part of the core."""
    topic = path.split("/")[2]
    async with publishing(service, topic, rate=LIVE):
        await service.set_state(path, "ACTIVE")
        await pace.until(time.monotonic() + RISES_S)
        figures = await measured(service, path, worker)
    await service.set_state(path, "SUSPENDED")
    return figures


async def measured(service: Service, path: str, worker: psutil.Process) -> dict[str, float]:
    """What the subscription is delivered from now on."""
    start, cpu = time.monotonic(), sum(worker.cpu_times()[:2])
    before = (await service.metrics(path))["delivered"]
    await pace.until(start + MEASURED_S)
    delivered = (await service.metrics(path))["delivered"] - before
    seconds = time.monotonic() - start
    used = sum(worker.cpu_times()[:2]) - cpu
    return {"delivered/s": delivered / seconds, "worker CPU %": 100 * used / seconds}


@contextmanager
def neighbours(count: int) -> Iterator[None]:
    """So many processes that never wait, on the core of what is measured."""
    with cores.on_cores(cores.MEASURED):
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()
