"""5,000 deliveries a second, by turns untraced and all of them traced, through the whole service.

Every message goes to ten subscriptions, on Kafka; latency counts from when it was to be published.
Meanwhile messages are looked up by their ids and undelivered ones listed, over REST;
at the end every delivery has its entry. `BENCH_TRACKING_SECONDS` (30) is how long all is traced, in
three rounds; `BENCH_TRACKING_RATE` (500) how many messages a second are published, each to ten
subscriptions. Nothing is pinned. Also written to `build/bench/tracking*`.
"""

import asyncio
import contextlib
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

import httpx
import psutil
from sqlalchemy import text

from app.storage.database import Database, open_database
from app.storage.trace_days import TraceDays
from app.tracing.packing import read_pack
from tests.benchmarks import pace
from tests.benchmarks.bench_latency import taken
from tests.benchmarks.figures import Report
from tests.benchmarks.percentiles import percentile
from tests.benchmarks.stopwatch import FAIL, Stopwatch, stopwatch, timed
from tests.e2e.service import Service
from tests.fakes.egress import LOOPBACK
from workers.transport.transport import DeliveryTransport

TOPIC: Final = "bench.tracking"
REFUSING: Final = "bench.refusing"
RATE: Final = int(os.environ.get("BENCH_TRACKING_RATE", "500"))
SUBSCRIPTIONS: Final = 10
SECONDS: Final = float(os.environ.get("BENCH_TRACKING_SECONDS", "30"))
ROUNDS: Final = 3
WARM_UP_S: Final = 2.0
# A change is everywhere within a second.
APPLIED_AFTER_S: Final = 1.5
UNDELIVERED: Final = 2_000
PAGE: Final = 100
# Between two questions of the same kind.
ASK_EVERY_S: Final = 0.05
# Entries are in the database about this long after what they tell of.
RECORDED_AFTER: Final = int(2 * RATE)
IDS_MAX: Final = 20_000

_dice: Final = Random(1)


class Publisher:
    """Publishes at a fixed rate, and keeps the ids of what was acknowledged last."""

    def __init__(self, service: Service, transport: DeliveryTransport) -> None:
        self._url = httpx.URL(f"http://127.0.0.1:{service.port}/topics/{TOPIC}")
        self._transport = transport
        self.ids: deque[str] = deque(maxlen=IDS_MAX)
        self.published = 0

    async def at_rate(self, seconds: float) -> int:
        """Publish, and return when all are acknowledged; how many that is."""
        start, before = time.monotonic(), self.published
        async with asyncio.TaskGroup() as tasks:
            for number in range(int(RATE * seconds)):
                due = start + number / RATE
                if due > time.monotonic():
                    await pace.until(due)
                tasks.create_task(self._publish(timed(due)))
        return self.published - before

    async def _publish(self, body: bytes) -> None:
        headers = {"Host": self._url.netloc.decode(), "Content-Type": "application/json"}
        request = httpx.Request("POST", self._url, headers=headers, content=body)
        request.extensions = {"timeout": {"read": 30.0}}
        response = await self._transport.handle_async_request(request)
        assert response.status_code == httpx.codes.CREATED
        self.published += 1
        self.ids.append(response.headers["Hermes-Message-Id"])


class Scene(NamedTuple):
    """The service, who publishes and receives, and the worker's process."""

    service: Service
    publisher: Publisher
    receiver: Stopwatch
    worker: psutil.Process


async def test_tracking(on_kafka: Mapping[str, str], logs: Path) -> None:
    report = Report("tracking", f"{RATE * SUBSCRIPTIONS} deliveries/s, untraced and all traced")
    async with (
        aclosing(DeliveryTransport(egress=LOOPBACK)) as transport,
        Service(on_kafka, logs) as service,
        stopwatch() as receiver,
    ):
        await service.api()
        worker = psutil.Process((await service.worker()).pid)
        publisher = Publisher(service, transport)
        scene = Scene(service, publisher, receiver, worker)
        await subscribed(scene)
        await discarded(scene)
        off, traced = await rounds(scene)
        report.add("untraced", off)
        report.add("all traced", traced)
        ratios = [
            {"p99 to untraced": b["p99 ms"] / a["p99 ms"]} for a, b in zip(off, traced, strict=True)
        ]
        report.add("ratio", ratios)
        entries = int(sum(each["deliveries"] for each in traced))
        report.add("stored", [await stored(on_kafka["ANGELIA_DATABASE_URL"], entries)])
    report.write()


async def rounds(scene: Scene) -> tuple[list[dict[str, float]], list[dict[str, float]]]:
    """By turns, untraced and traced."""
    off, traced = list[dict[str, float]](), list[dict[str, float]]()
    for _ in range(ROUNDS):
        off.append(await one_round(scene, "trackingOff"))
        traced.append(await one_round(scene, "trackingAll"))
    return off, traced


async def one_round(scene: Scene, mode: str) -> dict[str, float]:
    """Deliveries and questions at a time: the same of both, whatever is traced."""
    asked: dict[str, list[float]] = {"trace": [], "page": []}
    async with asking(scene, asked):
        figures = await delivering(scene, mode)
    return figures | {
        "trace p50 ms": percentile(asked["trace"], 50),
        "trace p99 ms": percentile(asked["trace"], 99),
        "page p99 ms": percentile(asked["page"], 99),
    }


async def delivering(scene: Scene, mode: str) -> dict[str, float]:
    """Latencies of all deliveries, and what one costs the worker."""
    await tracked(scene.service, mode)
    await pace.until(time.monotonic() + APPLIED_AFTER_S)
    warm = await scene.publisher.at_rate(WARM_UP_S)
    await taken(scene.receiver, warm * SUBSCRIPTIONS)
    used = used_s(scene.worker)
    count = await scene.publisher.at_rate(SECONDS / ROUNDS)
    latencies = await taken(scene.receiver, count * SUBSCRIPTIONS)
    used = used_s(scene.worker) - used
    return {
        "deliveries": (warm + count) * SUBSCRIPTIONS,
        "p50 ms": percentile(latencies, 50),
        "p99 ms": percentile(latencies, 99),
        "worker CPU us/delivery": used / count / SUBSCRIPTIONS * 1e6,
    }


@asynccontextmanager
async def asking(scene: Scene, asked: dict[str, list[float]]) -> AsyncIterator[None]:
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
    await scene.service.topic(TOPIC)
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


async def stored(url: str, wanted: int) -> dict[str, float]:
    """How much room all entries take, once each delivery has its own."""
    async with open_database(url) as database:
        packs = dict[tuple[str, str], int]()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(20):
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
