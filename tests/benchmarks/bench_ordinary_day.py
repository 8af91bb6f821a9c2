"""An ordinary day: few messages a second, spread over many topics, through the whole service.

500 messages of 900 bytes a second, then 2,000, to 20 topics of 50 subscriptions: 2.5 deliveries of
each. They come on ten kept connections, on Kafka. Publisher and subscribers are processes of their
own. CPU is the user and system time of a process; wake-ups are how often its threads waited for
something, and system calls are counted by `perf`, where it is installed and may be used. All
need a quiet machine: messages that queue share a wake-up. Nothing is pinned.

Another run has, by turns, none and 100 live pages of the console open, at 500 messages a second.

With `BENCH_BESIDE=<folder>` in the environment, the code of another tree runs by turns with this
one, for example that of a git worktree. After `make native`, compiled and interpreted code do. Also
written to `build/bench/ordinary-day*`.
"""

import asyncio
import os
import shutil
import signal
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from itertools import cycle
from pathlib import Path
from typing import Final, NamedTuple

import httpx
import psutil
import pytest

from app.native import is_current
from tests.benchmarks import pace
from tests.benchmarks.bench_latency import taken
from tests.benchmarks.figures import Report
from tests.benchmarks.percentiles import percentile
from tests.benchmarks.publisher import Publisher, publisher
from tests.benchmarks.stopwatch import Stopwatch, stopwatch
from tests.e2e.service import Service
from tests.servers.warm import ROOT, Version, warm

TOPICS: Final = 20
SUBSCRIPTIONS: Final = 50
DELIVERIES: Final = SUBSCRIPTIONS / TOPICS
CONNECTIONS: Final = 10
ROUNDS: Final = int(os.environ.get("BENCH_ROUNDS", "3"))
SECONDS: Final = 5.0
# Wake-ups are counted with the CPU, system calls after it: to count them costs something.
COUNTED_SECONDS: Final = 2.0
PERF_BEGINS_S: Final = 0.3
WARM_UP_S: Final = 3.0
LIVE_PAGES: Final = 100
BESIDE: Final = os.environ.get("BENCH_BESIDE")
# What the processes import, of each version: its commands may be others than ours.
PROGRAMS: Final = ("app.main", "workers.process", "app.log.kafka")

Figures = dict[str, float]


class Used(NamedTuple):
    """What a process has used so far."""

    cpu_s: float
    wakeups: int
    of_loop: int

    @classmethod
    def by(cls, pid: int) -> "Used":
        """By all threads of the process; the first one runs its event loop."""
        cpu = psutil.Process(pid).cpu_times()
        threads = [each.id for each in psutil.Process(pid).threads()]
        wakeups = {each: psutil.Process(each).num_ctx_switches().voluntary for each in threads}
        return cls(cpu.user + cpu.system, sum(wakeups.values()), wakeups[pid])


class Scene(NamedTuple):
    """Who publishes and receives, and the processes in between."""

    publisher: Publisher
    receiver: Stopwatch
    processes: Mapping[str, int]


@pytest.mark.parametrize("rate", [500, 2_000])
async def test_an_ordinary_day(on_kafka: Mapping[str, str], logs: Path, rate: int) -> None:
    title = f"{rate:,} messages/s over {TOPICS} topics and {SUBSCRIPTIONS} subscriptions, Kafka"
    report = Report(f"ordinary-day-{rate}", title)
    found: dict[str, list[Figures]] = {name: [] for name in versions()}
    async with stopwatch() as receiver:
        await prepared(Service(on_kafka, logs), receiver)
        for number in range(ROUNDS):
            for name, version in versions().items():
                place = logs / f"{number}-{name}"
                place.mkdir()
                service = Service(on_kafka, place, parent=warm(PROGRAMS, version))
                found[name].append(await one_round(service, receiver, rate))
    for name, rounds in found.items():
        report.add(name, rounds)
    report.write(plots=("worker CPU us", "API CPU us"))


async def test_an_ordinary_day_with_open_pages(on_kafka: Mapping[str, str], logs: Path) -> None:
    report = Report("ordinary-day-pages", "500 messages/s, with live pages of the console open")
    found: dict[int, list[Figures]] = {0: [], LIVE_PAGES: []}
    async with stopwatch() as receiver:
        await prepared(Service(on_kafka, logs), receiver)
        for number in range(ROUNDS):
            for pages, rounds in found.items():
                place = logs / f"{number}-{pages}"
                place.mkdir()
                service = Service(on_kafka, place, parent=warm(PROGRAMS, Version(ROOT)))
                rounds.append(await one_round(service, receiver, 500, pages=pages))
    for pages, rounds in found.items():
        report.add(f"{pages} pages", rounds)
    report.write(plots=("worker CPU us", "p99 ms"))


@asynccontextmanager
async def looking(url: str, pages: int) -> AsyncIterator[None]:
    """So many live pages are open meanwhile, and somebody reads each."""
    limits = httpx.Limits(max_connections=None)
    async with (
        httpx.AsyncClient(base_url=url, timeout=60, trust_env=False, limits=limits) as client,
        AsyncExitStack() as stack,
        asyncio.TaskGroup() as tasks,
    ):
        reading = []
        for number in range(pages):
            path = f"/console/topics/bench.day{number % TOPICS}?page={number}"
            headers = {"Accept": "text/event-stream"}
            page = await stack.enter_async_context(client.stream("GET", path, headers=headers))
            page.raise_for_status()
            assert page.headers["Content-Type"].startswith("text/event-stream"), page.headers
            reading.append(tasks.create_task(read(page)))
        yield
        for each in reading:
            each.cancel()


async def read(page: httpx.Response) -> None:
    async for _ in page.aiter_raw():
        pass


def versions() -> Mapping[str, Version]:
    """What runs by turns, by name."""
    others = {"beside": Version(Path(BESIDE))} if BESIDE else {}
    if is_current():
        return {**others, "interpreted": Version(ROOT, interpreted=True), "compiled": Version(ROOT)}
    return {**others, "here": Version(ROOT)}


async def prepared(service: Service, receiver: Stopwatch) -> None:
    """Make topics and subscriptions, as many of each topic as of any other."""
    async with service:
        await service.api()
        names = [f"bench.day{number}" for number in range(TOPICS)]
        for name in names:
            await service.topic(name)
        for number, topic in zip(range(SUBSCRIPTIONS), cycle(names), strict=False):
            await service.subscribe(topic, f"s{number}", receiver.url, adaptiveRate=True)


async def one_round(service: Service, receiver: Stopwatch, rate: int, *, pages: int = 0) -> Figures:
    async with service, AsyncExitStack() as stack:
        api, worker = await service.api(), await service.worker()
        await stack.enter_async_context(looking(service.url, pages))
        urls = [f"{service.url}/topics/bench.day{topic}" for topic in range(TOPICS)]
        async with publisher(*urls, rate=rate, connections=CONNECTIONS) as its:
            scene = Scene(its, receiver, {"worker": worker.pid, "API": api.pid})
            await published(scene, WARM_UP_S)
            before = {name: Used.by(pid) for name, pid in scene.processes.items()}
            count, latencies = await published(scene, SECONDS)
            after = {name: Used.by(pid) for name, pid in scene.processes.items()}
            figures = {"p50 ms": percentile(latencies, 50), "p99 ms": percentile(latencies, 99)}
            for name in scene.processes:
                figures |= per_message(name, before[name], after[name], count=count)
            return figures | await system_calls(scene)


def per_message(name: str, before: Used, after: Used, *, count: int) -> Figures:
    wakeups, of_loop = after.wakeups - before.wakeups, after.of_loop - before.of_loop
    return {
        f"{name} CPU us": (after.cpu_s - before.cpu_s) / count * 1e6,
        f"{name} wake-ups": of_loop / count,
        f"{name} wake-ups, other threads": (wakeups - of_loop) / count,
    }


async def published(scene: Scene, seconds: float) -> tuple[int, list[float]]:
    """Publish for so long; how many messages, and the latencies of all deliveries."""
    count = await scene.publisher.publish(seconds)
    return count, await taken(scene.receiver, int(count * DELIVERIES))


async def system_calls(scene: Scene) -> Figures:
    """How many system calls a message takes; nothing where they cannot be counted."""
    if shutil.which("perf") is None:
        return {}
    command = ("perf", "stat", "-x,", "-e", "raw_syscalls:sys_enter", "-p")
    counters = {
        name: await asyncio.create_subprocess_exec(
            *command, str(pid), stderr=asyncio.subprocess.PIPE
        )
        for name, pid in scene.processes.items()
    }
    # Until they have begun.
    await pace.until(time.monotonic() + PERF_BEGINS_S)
    count, _ = await published(scene, COUNTED_SECONDS)
    figures = {}
    for name, counter in counters.items():
        with suppress(ProcessLookupError):
            counter.send_signal(signal.SIGINT)
        said = (await counter.communicate())[1].decode().split(",")[0]
        if said.isdecimal():
            figures[f"{name} system calls"] = int(said) / count
    return figures
