"""What one subscription that catches up does to 49 others of its topic, on both logs.

The receivers are processes of their own, the publisher does not wait for answers, and latency
counts from when a message was to be published. One laggard after the other is resumed; the others
are timed before it, during its catch-up, and while a process of its own sends as many requests to
the same receiver as fast as it can: that is what a machine without idle cores costs, whoever uses
it. Once the laggard has no limit to speak of, and once a rate that leaves two cores some time. Also
written to `build/bench/laggard-*.json`.

    python -m tests.benchmarks.bench_laggard <url>

is that process: it waits for a line, then sends.
"""

import asyncio
import json
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple, cast

import psutil
import pytest
import uvloop

from tests.benchmarks import clients, pace
from tests.benchmarks.open_loop import publish_backlog, publishing
from tests.benchmarks.percentiles import percentile
from tests.benchmarks.receivers import receiver
from tests.benchmarks.stopwatch import Stopwatch, stopwatch
from tests.e2e.service import Service

REPORTS: Final = Path("build/bench")
OTHERS: Final = 49
LAGGARDS: Final = 3
# Live messages are 50 ms apart: of those that come in ten seconds two are the slowest hundredth.
BACKLOG: Final = 100_000
AT_ONCE: Final = 100
RATE: Final = 20
CALM_S: Final = 10.0
LOOK_EVERY_S: Final = 0.25


class Scene(NamedTuple):
    """The service, who receives its live deliveries, its worker, and where laggards deliver."""

    service: Service
    live: Stopwatch
    worker: psutil.Process
    late: str


@pytest.mark.parametrize("rate", [100_000, 2_000], ids="{}_a_second".format)
async def test_one_that_catches_up_beside_others(
    configuration: Mapping[str, str], logs: Path, request: pytest.FixtureRequest, rate: int
) -> None:
    with receiver() as (_, late):
        async with Service(configuration, logs) as service, stopwatch() as live:
            await service.api()
            worker = psutil.Process((await service.worker()).pid)
            scene = Scene(service, live, worker, late)
            laggards = await a_fan_out(scene, laggard_rate=rate)
            async with publishing(service, "bench.fanout", rate=RATE):
                await pace.until(time.monotonic() + CALM_S)
                rounds = [await one_round(scene, each) for each in laggards]
    report(request.node.callspec.id, rounds)


async def a_fan_out(scene: Scene, *, laggard_rate: int) -> list[str]:
    """The topic with a backlog for each laggard, and the others, who begin behind it."""
    service = scene.service
    topic = await service.topic("bench.fanout")
    laggards = [
        await service.subscribe(topic, f"late{n}", scene.late, rate=laggard_rate)
        for n in range(LAGGARDS)
    ]
    for path in laggards:
        await service.set_state(path, "SUSPENDED")
    await publish_backlog(service, topic, BACKLOG)
    for number in range(OTHERS):
        await service.subscribe(topic, f"s{number}", scene.live.url)
    return laggards


async def one_round(scene: Scene, laggard: str) -> dict[str, list[float]]:
    """The others' latencies before one is resumed, until it has caught up, and beside as much."""
    await scene.live.latencies()
    await pace.until(time.monotonic() + CALM_S)
    before = await scene.live.latencies()
    caught_up = await catch_up(scene, laggard)
    during = await scene.live.latencies()
    async with same_load(scene.late) as send:
        await scene.live.latencies()
        await send()
        beside = await scene.live.latencies()
    return {"before": before, "during": during, "beside": beside, **caught_up}


async def catch_up(scene: Scene, laggard: str) -> dict[str, list[float]]:
    """Resume it and wait until it has caught up: seconds, and the worker's CPU seconds."""
    cpu, start = sum(scene.worker.cpu_times()[:2]), time.monotonic()
    await scene.service.set_state(laggard, "ACTIVE")
    while (await scene.service.metrics(laggard))["delivered"] < BACKLOG:
        await pace.until(time.monotonic() + LOOK_EVERY_S)
    used = sum(scene.worker.cpu_times()[:2]) - cpu
    return {"took": [time.monotonic() - start], "cpu": [used]}


@asynccontextmanager
async def same_load(url: str) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """A process that sends as many requests as a laggard does, when told to."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __name__, url, stdin=-1, stdout=-1
    )
    stdin = cast("asyncio.StreamWriter", process.stdin)
    stdout = cast("asyncio.StreamReader", process.stdout)

    async def send() -> None:
        stdin.write(b"send\n")
        await stdout.readline()

    try:
        await stdout.readline()
        yield send
    finally:
        stdin.close()
        await process.wait()


def report(name: str, rounds: Sequence[Mapping[str, Sequence[float]]]) -> None:
    """Medians over the rounds: a machine that is busy with something else spoils one."""

    def typical(when: str, percent: int) -> float:
        return statistics.median(percentile(each[when], percent) for each in rounds)

    figures = {
        f"{when} p{percent} ms": typical(when, percent)
        for when in ("before", "during", "beside")
        for percent in (50, 99)
    }
    figures["p99 during / before"] = figures["during p99 ms"] / figures["before p99 ms"]
    figures["p99 during / beside"] = figures["during p99 ms"] / figures["beside p99 ms"]
    figures["caught up msg/s"] = BACKLOG / statistics.median(each["took"][0] for each in rounds)
    cpu = statistics.median(each["cpu"][0] for each in rounds)
    figures["worker CPU us/msg"] = cpu / BACKLOG * 1e6
    print(f"\nlaggard beside {OTHERS}: {name}")
    for label, value in figures.items():
        print(f"  {label:34} {value:10.2f}")
    REPORTS.mkdir(parents=True, exist_ok=True)
    (REPORTS / f"laggard-{name}.json").write_text(json.dumps(figures, indent=2) + "\n")


async def _send(url: str) -> None:
    async with clients.sender(url, AT_ONCE) as post:
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        numbers = count()

        async def one_after_the_other() -> None:
            while next(numbers) < BACKLOG:
                await post()

        await asyncio.gather(*(one_after_the_other() for _ in range(AT_ONCE)))
        print("sent", flush=True)


if __name__ == "__main__":
    uvloop.run(_send(sys.argv[1]))
