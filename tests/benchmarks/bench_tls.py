"""What TLS and SASL cost: publishing to Kafka and delivering from it, beside the same in the clear.

By turns: a listener in the clear, and one with TLS and SCRAM. Also written to `build/bench/tls*`.
"""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from typing import Final

import psutil
import pytest

from app.domain.kafka_security import IN_THE_CLEAR
from app.log.kafka import kafka_log
from tests.benchmarks import cores
from tests.benchmarks.bench_publish import LINES, SINGLE, TOPIC, Case, Target, measured
from tests.benchmarks.drains import Drain, Logs, drained
from tests.benchmarks.figures import Report
from tests.benchmarks.receivers import receiver
from tests.e2e.service import Service
from tests.servers.kafka import SharedBroker
from tests.servers.kafka_listeners import SecuredAddress

pytestmark = pytest.mark.usefixtures("broker_aside")

ROUNDS: Final = 3
MESSAGES: Final = 20_000
CASES: Final = (Case(SINGLE, 1), Case(SINGLE, 64), Case(LINES, 16))


def listeners(broker: SharedBroker) -> Mapping[str, SecuredAddress]:
    """The same broker's."""
    return {
        "in the clear": SecuredAddress(broker.bootstrap, IN_THE_CLEAR),
        "SASL_SSL": broker.secured.at("sasl_ssl"),
    }


async def test_publishing_over_tls(
    on_kafka: Mapping[str, str], kafka_broker: SharedBroker, tmp_path: Path
) -> None:
    report = Report("tls-publish", "Publishing to Kafka in the clear and over TLS")
    rounds: dict[str, list[Mapping[str, float]]] = {}
    async with AsyncExitStack() as stack:
        targets = {}
        for name, listener in listeners(kafka_broker).items():
            logs = tmp_path / listener.security.protocol
            logs.mkdir()
            configuration = {**on_kafka, **listener.environment()}
            service = await stack.enter_async_context(Service(configuration, logs))
            with cores.on_cores(cores.MEASURED):
                api = await service.api()
            targets[name] = Target(service.port, psutil.Process(api.pid))
        await service.topic(TOPIC)
        for case in CASES:
            for _ in range(ROUNDS):
                for name, target in targets.items():
                    found = await measured(target, case)
                    rounds.setdefault(f"{case.row}, {name}", []).append(found)
    for row, each in rounds.items():
        report.add(row, each)
    report.write(plots=("CPU us/message", "messages/s"))


def test_draining_over_tls(kafka_broker: SharedBroker, kafka_namespace: str) -> None:
    rounds: dict[str, list[Mapping[str, float]]] = {}
    with receiver() as (receiving, url):
        drain = Drain(url=url, messages=MESSAGES)
        for number in range(ROUNDS):
            for name, listener in listeners(kafka_broker).items():
                logs = logs_at(listener, f"{kafka_namespace}{number}.")
                rounds.setdefault(name, []).append(drained(logs, drain))
    report = Report("tls-drain", f"A backlog of 1-KB messages from Kafka to {receiving}")
    for name, each in rounds.items():
        report.add(name, each)
    report.write(plots=("CPU us/delivery", "deliveries/s"))


def logs_at(listener: SecuredAddress, namespace: str) -> Logs:
    """Logs in Kafka, reached by that listener."""
    numbers, protocol = count(), listener.security.protocol.lower()
    return lambda: kafka_log(
        listener.bootstrap,
        namespace=f"{namespace}{protocol}{next(numbers)}.",
        security=listener.security,
    )
