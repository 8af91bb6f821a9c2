"""5,000 deliveries a second, by turns untraced and all of them traced, through the whole service.

Every message goes to all subscriptions, on Kafka; latency counts from when it was to be published.
Publisher and subscribers are processes of their own. Meanwhile messages are looked up by their ids
and undelivered ones listed, over REST; how long that took is of all rounds together: a thousand
questions of a kind and more, if they are answered in time. At the end every delivery has its entry.
`BENCH_TRACKING_SECONDS` (60) is how long all is traced, in four rounds; `BENCH_TRACKING_RATE` (500)
how many messages a second are published, each to `BENCH_TRACKING_SUBSCRIPTIONS` (10). Nothing is
pinned: what a machine does besides spoils times, and CPU less so. Also written to
`build/bench/tracking*`.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

import psutil
from sqlalchemy import text

from app.storage.database import Database, open_database
from app.storage.traces.days import TraceDays
from app.tracing.packs import read_pack
from tests.benchmarks import pace
from tests.benchmarks.bench_latency import taken
from tests.benchmarks.bench_traces import server_of, used_by
from tests.benchmarks.figures import Report
from tests.benchmarks.percentiles import percentile
from tests.benchmarks.publisher import Publisher, publisher
from tests.benchmarks.stopwatch import FAIL, Stopwatch, stopwatch
from tests.e2e.service import Service

TOPIC: Final = "bench.tracking"
REFUSING: Final = "bench.refusing"
RATE: Final = int(os.environ.get("BENCH_TRACKING_RATE", "500"))
SUBSCRIPTIONS: Final = int(os.environ.get("BENCH_TRACKING_SUBSCRIPTIONS", "10"))
SECONDS: Final = float(os.environ.get("BENCH_TRACKING_SECONDS", "60"))
# Untraced first in every other one: what gets slower by and by is neither's.
ROUNDS: Final = 4
WARM_UP_S: Final = 2.0
# A change is everywhere within a second.
APPLIED_AFTER_S: Final = 1.5
UNDELIVERED: Final = 2_000
PAGE: Final = 100
# Between two questions of the same kind.
ASK_EVERY_S: Final = 0.05
# Entries are in the database about this long after what they tell of.
RECORDED_AFTER: Final = int(2 * RATE)

_dice: Final = Random(1)


Asked = dict[str, list[float]]


class Scene(NamedTuple):
    """The service, who publishes and receives, and the processes in between."""

    service: Service
    publisher: Publisher
    receiver: Stopwatch
    worker: psutil.Process
    api: psutil.Process
    postgres: psutil.Process

    def used(self) -> dict[str, float]:
        """Seconds of CPU so far."""
        return {
            "worker": used_s(self.worker),
            "API": used_s(self.api),
            "PostgreSQL": used_by(self.postgres),
        }


async def test_tracking(on_kafka: Mapping[str, str], logs: Path) -> None:
    report = Report("tracking", f"{RATE * SUBSCRIPTIONS} deliveries/s, untraced and all traced")
    async with (
        Service(on_kafka, logs) as service,
        stopwatch() as receiver,
        open_database(on_kafka["ANGELIA_DATABASE_URL"]) as database,
    ):
        api, worker = await service.api(), await service.worker()
        await service.topic(TOPIC)
        async with publisher(f"http://127.0.0.1:{service.port}/topics/{TOPIC}", rate=RATE) as its:
            processes = psutil.Process(worker.pid), psutil.Process(api.pid)
            scene = Scene(service, its, receiver, *processes, await server_of(database))
            await subscribed(scene)
            await discarded(scene)
            off, traced = await rounds(scene, report)
        ratios = [
            {"p99 to untraced": b["p99 ms"] / a["p99 ms"]} for a, b in zip(off, traced, strict=True)
        ]
        report.add("ratio", ratios)
        entries = int(sum(each["deliveries"] for each in traced))
        report.add("stored", [await stored(database, entries)])
    report.write()


async def rounds(
    scene: Scene, report: Report
) -> tuple[list[dict[str, float]], list[dict[str, float]]]:
    """By turns, untraced and traced."""
    found: dict[str, list[dict[str, float]]] = {"trackingOff": [], "trackingAll": []}
    asked: dict[str, Asked] = {mode: {"trace": [], "page": []} for mode in found}
    for number in range(ROUNDS):
        for mode in sorted(found, reverse=number % 2 == 0):
            found[mode].append(await one_round(scene, mode, asked[mode]))
    for mode, name in (("trackingOff", "untraced"), ("trackingAll", "all traced")):
        report.add(name, found[mode])
        report.add(f"{name}, asked", [said(asked[mode])])
    return found["trackingOff"], found["trackingAll"]


def said(asked: Asked) -> dict[str, float]:
    """Of all questions of a mode."""
    return {"questions": min(map(len, asked.values()))} | {
        f"{kind} p{part} ms": percentile(taken, part)
        for kind, taken in asked.items()
        for part in (50, 99)
    }


async def one_round(scene: Scene, mode: str, asked: Asked) -> dict[str, float]:
    """Deliveries and questions at a time: the same of both, whatever is traced."""
    await tracked(scene.service, mode)
    await pace.until(time.monotonic() + APPLIED_AFTER_S)
    async with asking(scene, asked):
        return await delivering(scene)


async def delivering(scene: Scene) -> dict[str, float]:
    """Latencies of all deliveries, and what one costs the processes."""
    warm = await scene.publisher.publish(WARM_UP_S)
    await taken(scene.receiver, warm * SUBSCRIPTIONS)
    before = scene.used()
    count = await scene.publisher.publish(SECONDS / ROUNDS)
    latencies = await taken(scene.receiver, count * SUBSCRIPTIONS)
    used = scene.used()
    return {
        "deliveries": (warm + count) * SUBSCRIPTIONS,
        "p50 ms": percentile(latencies, 50),
        "p99 ms": percentile(latencies, 99),
    } | {
        f"{name} CPU us/delivery": (used[name] - before[name]) / count / SUBSCRIPTIONS * 1e6
        for name in used
    }


@asynccontextmanager
async def asking(scene: Scene, asked: Asked) -> AsyncIterator[None]:
    """Look up messages, and list undelivered ones, beside the block; how long each took, in ms."""
    page = f"/topics/{REFUSING}/subscriptions/s/undelivered"

    async def ask(kind: str) -> None:
        while True:
            ids = scene.publisher.ids
            if kind == "page" or len(ids) > RECORDED_AFTER:
                message = "" if kind == "page" else ids[_dice.randrange(len(ids) - RECORDED_AFTER)]
                query = {"limit": PAGE} if kind == "page" else {}
                path = page if kind == "page" else f"/events/{message}/trace"
                start = time.perf_counter()
                (await scene.service.http.get(path, params=query)).raise_for_status()
                asked[kind].append((time.perf_counter() - start) * 1e3)
            await pace.until(time.monotonic() + ASK_EVERY_S)

    async with asyncio.TaskGroup() as tasks:
        askers = [tasks.create_task(ask(kind)) for kind in asked]
        yield
        for each in askers:
            each.cancel()


async def subscribed(scene: Scene) -> None:
    for number in range(SUBSCRIPTIONS):
        await scene.service.subscribe(TOPIC, f"s{number}", scene.receiver.url)


async def discarded(scene: Scene) -> None:
    """Let there be undelivered messages."""
    service = scene.service
    await service.topic(REFUSING)
    path = await service.subscribe(REFUSING, "s", scene.receiver.url, maxRetries=0)
    await service.publish_all(REFUSING, [(FAIL + b'": %d}' % n, "") for n in range(UNDELIVERED)])
    await service.undelivered(path, UNDELIVERED)


def used_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


async def tracked(service: Service, mode: str) -> None:
    for path in [f"/topics/{TOPIC}/subscriptions/s{number}" for number in range(SUBSCRIPTIONS)]:
        answer = await service.http.patch(path, json={"trackingMode": mode})
        answer.raise_for_status()


async def stored(database: Database, wanted: int) -> dict[str, float]:
    """How much room all entries take, once each delivery has its own."""
    packs = dict[tuple[str, str], int]()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(30):
            while sum(packs.values()) < wanted:
                await count_ends(database, packs)
                await pace.until(time.monotonic() + 0.5)
    entries = sum(packs.values())
    async with database.transaction() as session:
        size = sum(each.size for each in await TraceDays(session).all())
        lost = int(await session.scalar(text("SELECT sum(entries) FROM trace_losses")) or 0)
    return {
        "entries": entries,
        "not there": wanted - entries,
        "said to be lost": lost,
        "MB per million": size / entries,
    }


async def count_ends(database: Database, packs: dict[tuple[str, str], int]) -> None:
    """Add how many entries of each pack say how a delivery ended, of packs that are new."""
    places = "SELECT tableoid::text, ctid::text FROM trace_packs"
    body = text(
        "SELECT body FROM trace_packs WHERE tableoid = :table ::oid AND ctid = :place ::tid"
    )
    async with database.transaction() as session:
        found = [(table, place) for table, place in await session.execute(text(places))]
    for table, place in found:
        if (table, place) not in packs:
            async with database.transaction() as session:
                value = await session.scalar(body, {"table": table, "place": place})
            pack = read_pack(value)
            assert pack is not None
            ends = [row for row in pack.rows if row[2] != "INFLIGHT"]
            packs[table, place] = len(ends)
