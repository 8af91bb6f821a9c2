"""Publish to receive at fixed rates: the whole service on both logs, measured from outside.

The publisher does not wait for answers, and latency counts from when a message was to be published.
Nothing is pinned: the service has the machine as it is, with its publisher and its receiver. Beside
it stands Hermes 2.21.0 on a machine of the same kind. Also written to `build/bench/latency*`.
"""

import asyncio
import time
from collections.abc import Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Final, NamedTuple

import httpx
import psutil
import pytest

from tests.benchmarks import pace
from tests.benchmarks.figures import Report
from tests.benchmarks.percentiles import percentile
from tests.benchmarks.stopwatch import Stopwatch, stopwatch, timed
from tests.e2e.service import Service
from tests.fakes.egress import LOOPBACK
from workers.transport.transport import DeliveryTransport

TOPIC: Final = "bench.latency"
RATES: Final = {"embedded": (100, 500), "kafka": (100, 500, 1_000)}
ROUNDS: Final = 3
SECONDS: Final = 4.0
WARM_UP_S: Final = 2.0
PATIENCE_S: Final = 60.0
PATIENT: Final = {"timeout": {"read": 30.0}}
HERMES: Final = {500: {"Hermes p50 ms": 20.9, "Hermes p99 ms": 162.0}}


class Publisher:
    """Publishes at a fixed rate, through the transport that costs this machine least.

    What is not acknowledged is counted in `failed`: such a rate is more than the machine can do.
    """

    def __init__(self, service: Service, transport: DeliveryTransport) -> None:
        self._url = httpx.URL(f"http://127.0.0.1:{service.port}/topics/{TOPIC}")
        self._transport = transport
        self.failed = 0

    async def at_rate(self, rate: float, seconds: float) -> int:
        """Publish, and return when all are answered; how many were acknowledged."""
        count, before = int(rate * seconds), self.failed
        start = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            for number in range(count):
                due = start + number / rate
                if due > time.monotonic():
                    await pace.until(due)
                tasks.create_task(self._publish(timed(due)))
        return count - (self.failed - before)

    async def _publish(self, body: bytes) -> None:
        headers = {"Host": self._url.netloc.decode(), "Content-Type": "application/json"}
        request = httpx.Request(
            "POST", self._url, headers=headers, content=body, extensions=PATIENT
        )
        try:
            response = await self._transport.handle_async_request(request)
        except httpx.TransportError:
            self.failed += 1
        else:
            self.failed += response.status_code != httpx.codes.CREATED


async def test_latency_at_fixed_rates(
    configuration: Mapping[str, str], logs: Path, request: pytest.FixtureRequest
) -> None:
    name = request.node.callspec.id
    report = Report(f"latency-{name}", f"Publish to receive, 900-byte messages, {name} log")
    async with (
        aclosing(DeliveryTransport(egress=LOOPBACK)) as transport,
        Service(configuration, logs) as service,
        stopwatch() as receiver,
    ):
        api, worker = await service.api(), await service.worker()
        await service.subscribe(await service.topic(TOPIC), "s", receiver.url)
        publisher = Publisher(service, transport)
        scene = Scene(publisher, receiver, psutil.Process(api.pid), psutil.Process(worker.pid))
        await taken(receiver, await publisher.at_rate(RATES[name][0], WARM_UP_S))
        for rate in RATES[name]:
            rounds = [await one_round(scene, rate) for _ in range(ROUNDS)]
            report.add(f"{rate:,}/s", [{**each, **HERMES.get(rate, {})} for each in rounds])
    report.write(plots=("p50 ms", "p99 ms"))


class Scene(NamedTuple):
    """Who publishes, who receives, and the two processes in between."""

    publisher: Publisher
    receiver: Stopwatch
    api: psutil.Process
    worker: psutil.Process


async def one_round(scene: Scene, rate: int) -> dict[str, float]:
    """Latencies at a rate, and what a message costs."""
    api, worker, failed = _used_s(scene.api), _used_s(scene.worker), scene.publisher.failed
    count = await scene.publisher.at_rate(rate, SECONDS)
    latencies = await taken(scene.receiver, count)
    api, worker = _used_s(scene.api) - api, _used_s(scene.worker) - worker
    return {
        "p50 ms": percentile(latencies, 50),
        "p99 ms": percentile(latencies, 99),
        "max ms": max(latencies),
        "not acknowledged": scene.publisher.failed - failed,
        "API CPU us/message": api / count * 1e6,
        "worker CPU us/message": worker / count * 1e6,
    }


async def taken(receiver: Stopwatch, count: int) -> list[float]:
    """The latencies of so many messages, once they are there."""
    latencies = list[float]()
    async with asyncio.timeout(PATIENCE_S):
        while len(latencies) < count:
            await pace.until(time.monotonic() + 0.2)
            latencies += await receiver.latencies()
    return latencies


def _used_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
