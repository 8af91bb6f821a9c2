"""A backlog of a million messages in Kafka: an even rate from beginning to end, and flat memory.

A worker in a process of its own drains it; the receiver counts in tenths of a second. Also written
to `build/bench/million*`.
"""

import asyncio
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Final

import psutil
import pytest

from tests.benchmarks import cores, pace
from tests.benchmarks.figures import Report
from tests.benchmarks.open_loop import publish_backlog
from tests.benchmarks.receivers import SLICE_S, Receiver, slow_receiver
from tests.e2e.service import Service

pytestmark = pytest.mark.usefixtures("broker_aside")

TOPIC: Final = "bench.million"
MESSAGES: Final = 1_000_000
PUBLISHERS: Final = 4
STRETCH_S: Final = 5.0
PATIENCE_S: Final = 400.0


async def test_a_million(on_kafka: Mapping[str, str], logs: Path) -> None:
    with slow_receiver(0) as receiver:
        async with Service(on_kafka, logs) as service:
            with cores.on_cores(cores.OTHERS):
                api = await service.api()
            await service.topic(TOPIC)
            path = await service.subscribe(TOPIC, "s", receiver.url)
            await asyncio.gather(
                *(
                    publish_backlog(service, TOPIC, MESSAGES // PUBLISHERS)
                    for _ in range(PUBLISHERS)
                )
            )
            with cores.on_cores(cores.MEASURED):
                worker = psutil.Process((await service.real_worker()).pid)
            memory = await drained(receiver, worker)
            used = sum(worker.cpu_times()[:2])
            assert (await service.accounted(path, MESSAGES))["discarded"] == 0
            await api.stop()
        report(await receiver.counts(), memory, cpu_us=used / MESSAGES * 1e6)


async def drained(receiver: Receiver, worker: psutil.Process) -> list[tuple[int, float]]:
    """Messages received and the worker's memory (MB) at the end of each stretch."""
    stretches: list[tuple[int, float]] = []
    async with asyncio.timeout(PATIENCE_S):
        while not stretches or stretches[-1][0] < MESSAGES:
            await pace.until(time.monotonic() + STRETCH_S)
            received = sum(await receiver.counts())
            stretches.append((received, worker.memory_info().rss / 1e6))
    return stretches


def report(counts: list[int], memory: list[tuple[int, float]], *, cpu_us: float) -> None:
    """Each stretch by itself, then all."""
    figures = Report("million", "A million 1-KB messages from Kafka")
    per_stretch = round(STRETCH_S / SLICE_S)
    ends = [*range(0, len(counts), per_stretch), len(counts)]
    rates = [sum(counts[a:b]) / ((b - a) * SLICE_S) for a, b in pairwise(ends) if b > a]
    for number, (rate, (_, rss)) in enumerate(zip(rates, memory, strict=False)):
        begins = number * STRETCH_S
        figures.add(f"from {begins:.0f} s", [{"deliveries/s": rate, "RSS MB": rss}])
    # The last stretch is cut off, and memory is looked at no more often than it.
    whole = rates[:-1] or rates
    figures.add(
        "all stretches",
        [
            {"deliveries/s": rate, "RSS MB": rss, "CPU us/delivery": cpu_us}
            for rate, (_, rss) in zip(whole, memory, strict=False)
        ],
    )
    figures.write(plots=("deliveries/s", "RSS MB"))
