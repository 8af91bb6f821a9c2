"""One topic to 1, 10 and 100 subscriptions: what a delivery costs, and how often the log is read.

Also written to `build/bench/fanout*`.
"""

from typing import Final

import pytest

from tests.benchmarks.drains import Drain, drained, kafka_logs
from tests.benchmarks.figures import Report
from tests.benchmarks.receivers import receiver
from tests.servers.kafka import SharedBroker

pytestmark = pytest.mark.usefixtures("broker_aside")

ROUNDS: Final = 3
DELIVERIES: Final = 30_000
# Not more in flight at once than the receiver has connections for.
IN_FLIGHT: Final = 640
SUBSCRIPTIONS: Final = (1, 10, 100)
COST: Final = "CPU us/delivery"


def test_one_topic_to_many_subscriptions(kafka_broker: SharedBroker, kafka_namespace: str) -> None:
    logs = kafka_logs(kafka_broker, kafka_namespace)
    found: dict[int, list[dict[str, float]]] = {count: [] for count in SUBSCRIPTIONS}
    with receiver() as (name, url):
        drains = {count: _drain(url, count) for count in SUBSCRIPTIONS}
        for _ in range(ROUNDS):
            for count, drain in drains.items():
                found[count].append(drained(logs, drain))
    report = Report("fanout", f"One topic of Kafka to many subscriptions, 1-KB messages to {name}")
    for count, rounds in found.items():
        for one, figures in zip(found[SUBSCRIPTIONS[0]], rounds, strict=True):
            figures["of one subscription's"] = figures[COST] / one[COST]
        report.add(f"{count} subscriptions", rounds)
    report.write(plots=(COST, "log read times"))


def _drain(url: str, subscriptions: int) -> Drain:
    return Drain(
        url=url,
        messages=DELIVERIES // subscriptions,
        subscriptions=subscriptions,
        in_flight=min(64, IN_FLIGHT // subscriptions),
    )
