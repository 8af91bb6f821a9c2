"""How near a worker comes to what a slow receiver allows: `inflightSize` / its latency.

Receivers that take 0, 20, 50 and 200 ms, with 100, 1,000 and 4,000 messages in flight. The rate is
that of the middle of a run, as the receiver counts it. Where the bound is more than a core can do,
the CPU a delivery costs says what bounds it. Also written to `build/bench/inflight*`.
"""

import asyncio
from math import inf
from typing import Final

import pytest

from tests.benchmarks.drains import Drain, drained, kafka_logs
from tests.benchmarks.figures import Report
from tests.benchmarks.receivers import slow_receiver, steady_rate
from tests.servers.kafka import SharedBroker

pytestmark = pytest.mark.usefixtures("broker_aside")

ROUNDS: Final = 2
LATENCIES_MS: Final = (0, 20, 50, 200)
IN_FLIGHT: Final = (100, 1_000, 4_000)
SECONDS: Final = 2.5
# More than this a core does not do.
RATE_MAX: Final = 20_000
HERMES: Final = {(50, 100): 1_887, (50, 1_000): 8_679}


def test_slow_receivers(kafka_broker: SharedBroker, kafka_namespace: str) -> None:
    logs = kafka_logs(kafka_broker, kafka_namespace)
    report = Report("inflight", "Kafka to receivers that take their time, 1-KB messages")
    for latency in LATENCIES_MS:
        for in_flight in IN_FLIGHT:
            bound = in_flight / latency * 1e3 if latency else inf
            rounds = []
            for _ in range(ROUNDS):
                # One of its own for each: it counts from its first request on.
                with slow_receiver(latency) as receiver:
                    messages = int(min(bound, RATE_MAX) * SECONDS)
                    drain = Drain(url=receiver.url, messages=messages, in_flight=in_flight)
                    cost = drained(logs, drain)["CPU us/delivery"]
                    rate = steady_rate(asyncio.run(receiver.counts()))
                figures = {"deliveries/s": rate, "CPU us/delivery": cost}
                if latency:
                    figures |= {"bound/s": bound, "share of the bound %": rate / bound * 100}
                if hermes := HERMES.get((latency, in_flight)):
                    figures["Hermes/s"] = hermes
                rounds.append(figures)
            report.add(f"{latency} ms, {in_flight} in flight", rounds)
    report.write(plots=("deliveries/s", "CPU us/delivery"))
