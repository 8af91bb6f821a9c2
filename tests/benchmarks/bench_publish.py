"""What publishing costs the API process: CPU per message, rate and latency, on both logs.

Single publishes on 1 and on 64 connections, batches of 500 on 1 and on 16, driven by `wrk` when it
is installed and by plain sockets otherwise. CPU is the user and system time of the API process; it
is the figure to compare, because it hardly depends on what else the machine does. Beside it, round
by round, stands an application that does nothing on the same server: what it takes no publish can
do without. `packed` is on Kafka with compression.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import psutil
import pytest

from tests.benchmarks import cores
from tests.benchmarks.figures import Report
from tests.benchmarks.loads import Load, driven
from tests.e2e.service import Service, eventually
from tests.servers.ports import free_port
from tests.servers.warm import ROOT

pytestmark = pytest.mark.usefixtures("broker_aside")

TOPIC: Final = "bench.publish"
ROUNDS: Final = 3
SECONDS: Final = 2
WARM_UP_SECONDS: Final = 1
BATCH: Final = 500
MESSAGE: Final = b'{"order":4711,"filler":"' + b"x" * 975 + b'"}'
HERMES: Final = {"Hermes CPU us/message": 107.0, "Hermes p99 ms": 18.0}

SINGLE: Final = Load("single", f"/topics/{TOPIC}", "application/json", MESSAGE)
ARRAY: Final = Load(
    "array",
    f"/topics/{TOPIC}/batch",
    "application/json",
    b"[" + b",".join([MESSAGE] * BATCH) + b"]",
    BATCH,
)
LINES: Final = Load(
    "ndjson",
    f"/topics/{TOPIC}/batch",
    "application/x-ndjson",
    b"\n".join([MESSAGE] * BATCH),
    BATCH,
)


class Case(NamedTuple):
    """A load on so many connections; more batches at once are more than may wait for the log."""

    load: Load
    connections: int

    @property
    def row(self) -> str:
        return f"{self.load.name}, c={self.connections}"


class Target(NamedTuple):
    """A process that answers on a port."""

    port: int
    process: psutil.Process


CASES: Final = (
    Case(SINGLE, 1),
    Case(SINGLE, 64),
    Case(ARRAY, 1),
    Case(ARRAY, 16),
    Case(LINES, 1),
    Case(LINES, 16),
)
PACKED: Final = (Case(SINGLE, 64), Case(LINES, 16))


async def test_publishing(
    configuration: Mapping[str, str], logs: Path, request: pytest.FixtureRequest
) -> None:
    report = Report(f"publish-{_id(request)}", f"Publishing on {_id(request)}")
    async with Service(configuration, logs) as service:
        await compared(report, service, CASES)


@pytest.mark.parametrize("codec", ["lz4", "zstd", "gzip"])
async def test_publishing_packed(on_kafka: Mapping[str, str], logs: Path, codec: str) -> None:
    report = Report(f"publish-packed-{codec}", f"Publishing on Kafka, packed by {codec}")
    async with Service({**on_kafka, "ANGELIA_KAFKA_COMPRESSION": codec}, logs) as service:
        await compared(report, service, PACKED)


async def compared(report: Report, service: Service, cases: Sequence[Case]) -> None:
    """Each case in rounds, every round beside the application that does nothing."""
    async with trivial() as nothing:
        with cores.on_cores(cores.MEASURED):
            api = await service.api()
        await service.topic(TOPIC)
        target = Target(service.port, psutil.Process(api.pid))
        for case in cases:
            rounds = []
            for _ in range(ROUNDS):
                least = await measured(nothing, case)
                rounds.append(beside(await measured(target, case), least, case))
            report.add(case.row, rounds)
    report.write(plots=("CPU us/message", "messages/s"))


def beside(found: Mapping[str, float], least: Mapping[str, float], case: Case) -> dict[str, float]:
    """The figures with what the bare server took, and Hermes' for single publishes."""
    cpu = found["CPU us/message"]
    bare = {"bare us/message": least["CPU us/message"], "times bare": cpu / least["CPU us/message"]}
    hermes = HERMES if case == Case(SINGLE, 64) else {}
    return {**found, **bare, **hermes}


async def measured(target: Target, case: Case) -> dict[str, float]:
    """One round, after a warm-up."""
    load, connections = case
    await driven(target.port, load, connections=connections, seconds=WARM_UP_SECONDS)
    before, begun = _used_s(target.process), time.monotonic()
    seen = await driven(target.port, load, connections=connections, seconds=SECONDS)
    used, took = _used_s(target.process) - before, time.monotonic() - begun
    assert seen.requests, "nothing was answered"
    messages = seen.requests * load.messages
    return {
        "CPU us/message": used / messages * 1e6,
        "messages/s": messages / took,
        "p50 ms": seen.p50_ms,
        "p99 ms": seen.p99_ms,
        "failed": seen.failed,
    }


@asynccontextmanager
async def trivial() -> AsyncIterator[Target]:
    """The application that does nothing, in a process of its own."""
    port = free_port()
    with cores.on_cores(cores.MEASURED):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.benchmarks.trivial", str(port), cwd=ROOT
        )
    try:
        await eventually(partial(_listens, port))
        yield Target(port, psutil.Process(process.pid))
    finally:
        process.terminate()
        await process.wait()


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


def _used_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _id(request: pytest.FixtureRequest) -> str:
    name: str = request.node.callspec.id
    return name
