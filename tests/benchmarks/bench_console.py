"""What pages of the console take with 5,000 topics and 20,000 subscriptions, also live."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from statistics import fmean
from typing import Final

import httpx
import pytest
from pydantic import SecretStr

from app.config import Settings
from app.main import create_app
from app.storage.database import Database
from tests.benchmarks import catalogue
from tests.benchmarks.aside import Meter, Served
from tests.benchmarks.bench_management import START_S, Measured, postmaster_of, spared
from tests.benchmarks.figures import Report
from tests.benchmarks.percentiles import percentile
from tests.fakes.keys import KEY

ROUNDS: Final = 3
REQUESTS: Final = 20
# Before them: a connection prepares a statement once it has run it some times, and the calls of a
# page run on several connections.
WARM: Final = 15
# Open pages, and for how long they are watched: the process does some of its work once a minute.
LIVE: Final = 100
WINDOW_S: Final = 60.0
SETTLE_S: Final = 5.0
_LIVE_HEADERS: Final = {"Accept": "text/event-stream"}
_TOPIC: Final = "/console/topics/g7.t7"
_SUBSCRIPTION: Final = f"{_TOPIC}/subscriptions/s7"
PAGES: Final[dict[str, str]] = {
    "now": "/console/",
    "topics": "/console/topics",
    "topics, the last page": "/console/topics?after=g9.t959",
    "topics by a part of the name": "/console/topics?q=t12",
    "search": "/console/search?q=service-17",
    "the form of a new topic": "/console/new-topic",
    "a topic": _TOPIC,
    **{
        f"a topic: {page}": f"{_TOPIC}/{page}"
        for page in ("edit", "schema", "partitions", "publish", "undelivered", "delete")
    },
    "the form of a new subscription": f"{_TOPIC}/new-subscription",
    "a subscription": _SUBSCRIPTION,
    **{
        f"a subscription: {page}": f"{_SUBSCRIPTION}/{page}"
        for page in (
            "edit",
            "undelivered",
            "undelivered/again",
            "ledger",
            "resend",
            "move",
            "filters",
            "secrets",
            "certificates",
            "simulate",
            "delete",
        )
    },
    **{
        page: f"/console/{page}"
        for page in (
            "messages",
            "undelivered",
            "analytics",
            "analytics/counts",
            "analytics/latency",
            "jobs",
            "new-job",
            "operations",
            "operations/settings",
            "keys",
            "new-key",
            "audit",
        )
    },
}


@pytest.fixture
async def measured(postgres_url: str, database: Database) -> AsyncIterator[Measured]:
    await catalogue.fill(database)
    app = create_app(Settings(secret_key=SecretStr(KEY)), database_url=postgres_url)
    meter = Meter(postmaster_of(postgres_url))
    limits = httpx.Limits(max_connections=None)
    async with (
        Served(app) as served,
        httpx.AsyncClient(
            base_url=served.url, timeout=START_S, trust_env=False, limits=limits
        ) as client,
    ):
        (await client.get("/status/ready")).raise_for_status()
        with spared():
            yield Measured(served, client, meter)


async def test_pages_with_many_topics_and_subscriptions(measured: Measured) -> None:
    report = Report(
        "console",
        f"The console, {catalogue.TOPICS:,} topics, {catalogue.SUBSCRIPTIONS:,} subscriptions",
    )
    for name, path in PAGES.items():
        for _ in range(WARM):
            await looked_at(measured, path)
        report.add(name, [await round_of(measured, path) for _ in range(ROUNDS)])
    report.write(plots=("p95 ms", "API CPU ms"))


async def test_a_hundred_open_live_pages(measured: Measured) -> None:
    report = Report("console_live", f"{LIVE} open live pages, beside an idle process")
    different = [f"/console/topics/g{n % 50}.t{n}" for n in range(LIVE)]
    # Idle before and after, because the figures of a machine drift.
    idle = [await spent_in(measured, WINDOW_S)]
    same = await live(measured, ["/console/"] * LIVE)
    others = await live(measured, different)
    idle.append(await spent_in(measured, WINDOW_S))
    report.add("nobody looks", [figures_of(each, (0.0, 0.0)) for each in idle])
    nothing = (fmean(each[0] for each in idle), fmean(each[1] for each in idle))
    report.add("the same page", [figures_of(same, nothing)])
    report.add("different pages", [figures_of(others, nothing)])
    report.write(plots=("% of a core",))


def figures_of(spent: tuple[float, float], idle: tuple[float, float]) -> dict[str, float]:
    """What was spent beyond an idle process."""
    return {
        "% of a core": spent[0] - idle[0],
        "% of a core, PostgreSQL": spent[1] - idle[1],
    }


async def round_of(measured: Measured, path: str) -> dict[str, float]:
    """Requests one after the other."""
    took: list[float] = []
    before = measured.meter.read()
    for _ in range(REQUESTS):
        asked = time.perf_counter()
        answer = await looked_at(measured, path)
        took.append((time.perf_counter() - asked) * 1000)
    spent = measured.meter.read().since(before)
    with measured.served.watched() as turns:
        await looked_at(measured, path)
    return {
        "p50 ms": percentile(took, 50),
        "p95 ms": percentile(took, 95),
        "API CPU ms": spent.api / REQUESTS * 1000,
        "PostgreSQL CPU ms": spent.postgres / REQUESTS * 1000,
        "longest turn ms": turns.longest_s * 1000,
        "KB": len(answer.content) / 1000,
    }


async def looked_at(measured: Measured, path: str) -> httpx.Response:
    """A page."""
    return (await measured.client.get(path)).raise_for_status()


async def live(measured: Measured, paths: Sequence[str]) -> tuple[float, float]:
    """Keep these pages open for a while; what is spent meanwhile."""
    async with AsyncExitStack() as stack:
        for path in paths:
            await stack.enter_async_context(
                measured.client.stream("GET", path, headers=_LIVE_HEADERS)
            )
        # The first parts are sent at once.
        await spent_in(measured, SETTLE_S)
        return await spent_in(measured, WINDOW_S)


async def spent_in(measured: Measured, seconds: float) -> tuple[float, float]:
    """The CPU of the API and of PostgreSQL meanwhile, in percent of a core."""
    before, began = measured.meter.read(), time.perf_counter()
    await asyncio.sleep(seconds)
    spent, took = measured.meter.read().since(before), time.perf_counter() - began
    return spent.api / took * 100, spent.postgres / took * 100
