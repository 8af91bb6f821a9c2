"""What it costs to wait for all replicas: publishing on three brokers with either `ack`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import psutil

from tests.benchmarks import cores
from tests.benchmarks.bench_publish import BATCH, MESSAGE, Case, Target, measured
from tests.benchmarks.figures import Report
from tests.benchmarks.loads import Load
from tests.e2e.service import Service
from tests.servers.kafka import running_cluster

ACKS: Final = ("ALL", "LEADER")
CONNECTIONS: Final = (1, 64)
ROUNDS: Final = 3
REPLICAS: Final = 3


async def test_publish_replicas(on_embedded_log: Mapping[str, str], logs: Path) -> None:
    report = Report("publish-replicas", "Publishing on three brokers, three replicas")
    with running_cluster(REPLICAS) as brokers:
        configuration = {
            **on_embedded_log,
            "ANGELIA_KAFKA_BOOTSTRAP": ",".join(each.bootstrap for each in brokers),
            "ANGELIA_REPLICATION_FACTOR": str(REPLICAS),
        }
        async with Service(configuration, logs) as service:
            with cores.on_cores(cores.MEASURED):
                api = await service.api()
            for ack in ACKS:
                await service.topic(_topic(ack), ack=ack)
            target = Target(service.port, psutil.Process(api.pid))
            cases = {(ack, n): Case(_single(ack), n) for n in CONNECTIONS for ack in ACKS}
            cases |= {(ack, BATCH): Case(_lines(ack), 1) for ack in ACKS}
            await _compared(report, target, cases)


async def _compared(report: Report, target: Target, cases: Mapping[tuple[str, int], Case]) -> None:
    """Each case in rounds that take turns with those of the others."""
    rounds: dict[str, list[Mapping[str, float]]] = {}
    for _ in range(ROUNDS):
        for (ack, _), case in cases.items():
            rounds.setdefault(f"{ack}, {case.row}", []).append(await measured(target, case))
    for row, found in rounds.items():
        report.add(row, found)
    report.write(plots=("CPU us/message", "p50 ms", "p99 ms"))


def _topic(ack: str) -> str:
    return f"bench.{ack.lower()}"


def _single(ack: str) -> Load:
    return Load("single", f"/topics/{_topic(ack)}", "application/json", MESSAGE)


def _lines(ack: str) -> Load:
    body = b"\n".join([MESSAGE] * BATCH)
    path = f"/topics/{_topic(ack)}/batch"
    return Load("ndjson", path, "application/x-ndjson", body, BATCH)
