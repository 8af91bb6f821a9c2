"""A retransmission of 100,000 messages beside live traffic, on both logs; cancelled half-way.

The messages are chosen already: Spark has no part in it. The publisher does not wait for answers,
and latency counts from when a message was to be published. Also written to
`build/bench/retransmission-*`.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.benchmarks import pace
from tests.benchmarks.figures import Report
from tests.benchmarks.open_loop import publish_backlog, publishing
from tests.benchmarks.percentiles import percentile
from tests.benchmarks.stopwatch import Stopwatch, stopwatch
from tests.e2e.chosen import chosen, ends_of
from tests.e2e.service import LOOK_EVERY_S, Service

TOPIC: Final = "bench.retransmission"
MESSAGES: Final = 100_000
LIVE: Final = 500
RATE: Final = 2_000
SHARE: Final = 0.5
CALM_S: Final = 10.0
QUICK_MS: Final = 100.0
PARTITIONS: Final = 4
# Half of them take so many seconds at their share of the rate, if nothing is in the way.
PATIENCE_S: Final = 1.5 * MESSAGES / 2 / (RATE * SHARE)
# After a cancellation nothing comes for so long, but what is new.
QUIET_S: Final = 4.0


async def test_a_retransmission_beside_live_traffic(
    configuration: Mapping[str, str], logs: Path, request: pytest.FixtureRequest
) -> None:
    name = request.node.callspec.id
    title = f"{MESSAGES:,} messages again at {RATE * SHARE:.0f}/s, {LIVE}/s live, {name} log"
    report = Report(f"retransmission-{name}", title)
    async with Service(configuration, logs) as service, stopwatch() as receiver:
        await service.api()
        await service.worker()
        await service.topic(TOPIC, partitions=PARTITIONS)
        await publish_backlog(service, TOPIC, MESSAGES)
        path = await service.subscribe(TOPIC, "s", receiver.url, rate=RATE)
        ends = await ends_of(service, path)
        async with publishing(service, TOPIC, rate=LIVE):
            await until_quick(receiver)
            before = await live(receiver, CALM_S)
            url = configuration["ANGELIA_DATABASE_URL"]
            where = await chosen(url, path, ends, share=SHARE)
            await pace.until(time.monotonic() + 2.0)
            during = await live(receiver, CALM_S)
        await until_written(service, where, MESSAGES // 2)
        # Nothing else comes by now.
        asked, busiest = time.monotonic(), await receiver.busiest()
        (await service.http.delete(where)).raise_for_status()
        await pace.until(time.monotonic() + QUIET_S)
        last = (await receiver.counts()).last_at
        report.add("before", [before])
        report.add("during", [during])
        report.add("during / before", [{"p99 ms": during["p99 ms"] / before["p99 ms"]}])
        report.add("until cancelled", [{"busiest second": busiest, "limit": RATE}])
        report.add("cancelled", [{"last request s after": max(0.0, last - asked)}])
    report.write()


async def live(receiver: Stopwatch, seconds: float) -> dict[str, float]:
    """The latencies of what is new, for so long, and how much comes at all."""
    await receiver.latencies()
    await receiver.busiest()
    began, taken = time.monotonic(), (await receiver.counts()).taken
    await pace.until(began + seconds)
    taken = (await receiver.counts()).taken - taken
    latencies = await receiver.latencies()
    return {
        "p50 ms": percentile(latencies, 50),
        "p99 ms": percentile(latencies, 99),
        "requests/s": taken / (time.monotonic() - began),
        "busiest second": await receiver.busiest(),
    }


async def until_quick(receiver: Stopwatch) -> None:
    """Wait until the rate has risen, and what waited for that has come."""
    until = time.monotonic() + PATIENCE_S
    while (found := await live(receiver, 1.0))["p99 ms"] > QUICK_MS:
        assert time.monotonic() < until, f"not quick within {PATIENCE_S:.0f} s: {found}"


async def until_written(service: Service, where: str, count: int) -> None:
    async def written() -> bool:
        seen = (await service.http.get(where)).raise_for_status().json()
        return bool(seen["counts"]["written"] >= count)

    until = time.monotonic() + PATIENCE_S
    while not await written():
        assert time.monotonic() < until, f"less than {count} were sent within {PATIENCE_S:.0f} s"
        await pace.until(time.monotonic() + LOOK_EVERY_S)
