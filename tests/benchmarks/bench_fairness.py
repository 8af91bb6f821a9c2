"""What a bad neighbour costs the others: hostile subscribers, and messages that always fail.

One worker in this process on the log in memory; receivers are processes of their own. Each figure
stands beside one without the neighbour from the same run. What is asserted is counted: memory and
connections, not time. Also written to `build/bench/fairness.json`.
"""

import asyncio
import itertools
import json
import statistics
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import psutil
import pytest
import uvloop

from app.domain.catalogue.subscription import Subscription
from app.domain.catalogue.topic import Topic
from tests.benchmarks import pace
from tests.benchmarks.culprits import CULPRITS, culprit
from tests.benchmarks.percentiles import percentile
from tests.benchmarks.stopwatch import FAIL, Stopwatch, stopwatch, timed
from tests.fakes.egress import LOOPBACK
from tests.fakes.worker import World
from workers.delivery.sender import Sender
from workers.transport.limits import TransportLimits

REPORT: Final = Path("build/bench/fairness.json")
OTHERS: Final = 10
RATE: Final = 50
SECONDS: Final = 1.0
ROUNDS: Final = 3
GOOD: Final = 10_000
BAD: Final = 100
LOOK_EVERY_S: Final = 0.1
# What a hundred answers that never end may add.
MEMORY_MAX: Final = 64 << 20
LIMITS: Final = TransportLimits(idle_expiry=timedelta(seconds=1))
# What the API gives a subscription that asks for nothing, but for the time to live.
DEFAULTS: Final[dict[str, Any]] = {
    "rate": 400,
    "adaptive_rate": True,
    "request_timeout": timedelta(seconds=1),
    "message_ttl": timedelta(seconds=5),
}
UNLIMITED: Final[dict[str, Any]] = DEFAULTS | {"rate": 100_000, "adaptive_rate": False}
RATES: Final[dict[str, dict[str, Any]]] = {
    "as fast as they are taken": {},
    "at most 2,000/s": {"rate": 2_000},
    "at most 2,000/s, adaptive": {"rate": 2_000, "adaptive_rate": True},
}

_figures: dict[str, Mapping[str, float]] = {}


def report(name: str, figures: Mapping[str, float]) -> None:
    """Print what one neighbour costs, and write all so far down."""
    _figures[name] = figures
    print(f"\n{name:40}" + "  ".join(f"{label} {value:.2f}" for label, value in figures.items()))
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text(json.dumps(_figures, indent=2) + "\n")


@pytest.mark.parametrize("limits", [DEFAULTS, UNLIMITED], ids=["as by default", "without limits"])
@pytest.mark.parametrize("name", CULPRITS)
def test_a_hostile_subscriber_beside_others(name: str, limits: Mapping[str, Any]) -> None:
    uvloop.run(beside(name, limits))


async def beside(name: str, limits: Mapping[str, Any]) -> None:
    """The others' latencies with and without the culprit, in turns."""
    async with (
        culprit(name) as url,
        stopwatch() as live,
        Sender(egress=LOOPBACK, limits=LIMITS) as sender,
    ):
        world = World(sender=sender)
        topic = await world.topic()
        for number in range(OTHERS):
            await world.subscribe(topic, f"s{number}", endpoint=live.url)
        hostile = await world.subscribe(topic, "hostile", endpoint=url, **limits)
        hostile = world.suspend(hostile)
        async with world.worker():
            await world.plane.until_applied()
            rounds, grown = await in_turns(world, hostile, live)
            await no_connections(sender)
    unlimited = ", without limits" if limits is UNLIMITED else ""
    report(name + unlimited, {**compared(rounds), "memory MB": grown / 1e6})
    assert grown < MEMORY_MAX


async def in_turns(
    world: World, hostile: Subscription, live: Stopwatch
) -> tuple[list[tuple[list[float], list[float]]], int]:
    """Latencies alone and accompanied, and how many bytes the process grew meanwhile."""
    topic = world.plane.topics[hostile.topic]
    await timed_publishing(world, topic, live)
    process = psutil.Process()
    before = process.memory_info().rss
    rounds = []
    for _ in range(ROUNDS):
        alone = await timed_publishing(world, topic, live)
        hostile = world.resume(hostile)
        await world.plane.until_applied()
        rounds.append((alone, await timed_publishing(world, topic, live)))
        hostile = world.suspend(hostile)
        await world.plane.until_applied()
    return rounds, process.memory_info().rss - before


def compared(rounds: Sequence[tuple[Sequence[float], Sequence[float]]]) -> dict[str, float]:
    """Medians over the rounds: a machine that is busy with something else spoils one or two."""
    alone = statistics.median(percentile(before, 99) for before, _ in rounds)
    beside = statistics.median(percentile(after, 99) for _, after in rounds)
    middle = [statistics.median(after) / statistics.median(before) for before, after in rounds]
    return {
        "alone p99 ms": alone,
        "beside p99 ms": beside,
        "ratio of p99": beside / alone,
        "ratio of p50": statistics.median(middle),
    }


async def timed_publishing(world: World, topic: Topic, live: Stopwatch) -> list[float]:
    """Publish at a fixed rate for a while; the latencies of the others."""
    await live.latencies()
    start = time.monotonic()
    for number in range(int(RATE * SECONDS)):
        due = start + number / RATE
        await pace.until(due)
        await world.publish(topic, timed(due))
    latencies = list[float]()
    async with asyncio.timeout(30):
        while len(latencies) < int(RATE * SECONDS) * OTHERS:
            await pace.until(time.monotonic() + LOOK_EVERY_S)
            latencies += await live.latencies()
    return latencies


async def no_connections(sender: Sender) -> None:
    """Wait until all connections are gone, with nothing to do for any; TimeoutError."""
    async with asyncio.timeout(30):
        while sender.transport.connections or sender.transport.waiting_requests:
            await pace.until(time.monotonic() + LOOK_EVERY_S)
    assert sender.transport.origins == 0


@pytest.mark.parametrize("name", RATES)
def test_messages_that_always_fail_among_good_ones(name: str) -> None:
    async def run() -> None:
        took: dict[bool, list[float]] = {False: [], True: []}
        for failing in itertools.islice(itertools.cycle((False, True)), 2 * ROUNDS):
            took[failing].append(await drained(RATES[name], failing=failing))
        without, with_them = (statistics.median(took[failing]) for failing in (False, True))
        figures = {"without s": without, "with s": with_them, "ratio": with_them / without}
        report(f"{BAD} that always fail, {name}", figures)

    uvloop.run(run())


async def drained(policy: Mapping[str, Any], *, failing: bool) -> float:
    """Seconds until all good messages have been taken."""
    async with a_drain(policy) as (world, topic, receiver):
        bodies = [b'{"good": "%s"}' % (b"x" * 900)] * GOOD
        if failing:
            bodies[:: GOOD // BAD] = [FAIL + b"}"] * BAD
        good = sum(not body.startswith(FAIL) for body in bodies)
        await world.publish(topic, *bodies)
        start = time.monotonic()
        async with world.worker():
            while (counts := await receiver.counts()).taken < good:
                await pace.until(time.monotonic() + LOOK_EVERY_S)
        return (counts.last_at - start) * GOOD / good


@asynccontextmanager
async def a_drain(policy: Mapping[str, Any]) -> AsyncIterator[tuple[World, Topic, Stopwatch]]:
    async with stopwatch() as receiver, Sender(egress=LOOPBACK) as sender:
        world = World(sender=sender)
        topic = await world.topic()
        await world.subscribe(topic, endpoint=receiver.url, **policy)
        yield world, topic, receiver
