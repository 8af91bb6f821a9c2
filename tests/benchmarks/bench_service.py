"""The whole service, measured from outside, on both logs: first deliveries, suspensions.

Prints how soon a new subscription and a new topic get their first message, and how soon a
suspension is answered and takes effect. The figures stand beside those of Hermes 2.21.0 on a
machine of the same kind. Also written to `build/bench/service-*.json`.
"""

import asyncio
import json
import statistics
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

import httpx
import pytest

from tests.benchmarks import pace
from tests.e2e.service import Service, running
from tests.fakes.subscriber import Subscriber

REPORTS: Final = Path("build/bench")
HERMES: Final = {
    "new subscription s": 23.5,
    "suspended: last delivery s": 32.0,
}


def report(name: str, figures: Mapping[str, float]) -> None:
    """Print the figures, and write them down."""
    print(f"\n{name}")
    for label, value in figures.items():
        beside = f"   Hermes {HERMES[label]:g}" if label in HERMES else ""
        print(f"  {label:34} {value:10.2f}{beside}")
    REPORTS.mkdir(parents=True, exist_ok=True)
    (REPORTS / f"service-{name}.json").write_text(json.dumps(figures, indent=2) + "\n")


class Publisher:
    """Publishes on one connection, each message with the time at which it was begun."""

    def __init__(self, service: Service, topic: str) -> None:
        self._http = httpx.AsyncClient(base_url=service.http.base_url, trust_env=False)
        self._topic = topic

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def publish(self) -> None:
        body = json.dumps({"at": time.monotonic(), "filler": "x" * 900})
        response = await self._http.post(f"/topics/{self._topic}", content=body)
        response.raise_for_status()

    async def at_rate(self, rate: float, seconds: float) -> None:
        """Publish at a fixed rate; a slow answer makes the next late, and counts as latency."""
        start = time.monotonic()
        for number in range(int(rate * seconds)):
            await pace.until(start + number / rate)
            await self.publish()


async def test_first_deliveries_and_suspensions(
    configuration: Mapping[str, str],
    logs: Path,
    request: pytest.FixtureRequest,
) -> None:
    async with running(configuration, logs) as service:
        await service.topic("bench.warm")
        rounds = [await one_round(service, number) for number in range(5)]
    medians = {label: statistics.median(r[label] for r in rounds) for label in rounds[0]}
    report(f"control-{request.node.callspec.id}", medians)


async def one_round(service: Service, number: int) -> dict[str, float]:
    figures: dict[str, float] = {}
    for label, topic in (("new subscription s", "bench.warm"), ("new topic s", f"bench.t{number}")):
        async with Subscriber() as receiver:
            start = time.monotonic()
            if topic != "bench.warm":
                await service.topic(topic)
            path = await service.subscribe(topic, f"s{number}", receiver.url)
            async with Publisher(service, topic) as publisher:
                await asyncio.gather(publisher.at_rate(100, 1), receiver.wait_for(1))
                figures[label] = receiver.received[0].at - start
                publishing = asyncio.gather(publisher.at_rate(100, 2.5))
                figures |= await suspension(service, path, receiver)
                await publishing
            await service.http.delete(path)
    return figures


async def suspension(service: Service, path: str, receiver: Subscriber) -> dict[str, float]:
    asked = time.monotonic()
    await service.set_state(path, "SUSPENDED")
    answered = time.monotonic()
    await pace.until(answered + 2)
    last = receiver.received[-1].at
    return {
        "suspended: answered s": answered - asked,
        "suspended: last delivery s": max(0.0, last - asked),
    }
