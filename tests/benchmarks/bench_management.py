"""What lists, queries and search take with 5,000 topics and 20,000 subscriptions."""

import gc
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import httpx
import psycopg
import pytest
from pydantic import SecretStr

from app.config import Settings
from app.main import COLLECT_AFTER, create_app
from app.storage.database import Database
from tests.benchmarks import catalogue
from tests.benchmarks.aside import Meter, Served
from tests.benchmarks.figures import Report
from tests.benchmarks.percentiles import percentile
from tests.fakes.keys import KEY

ROUNDS: Final = 3
REQUESTS: Final = 10
# A round of what takes longer has fewer requests.
ROUND_S: Final = 0.5
# Of one there is no percentile.
LEAST: Final = 2
# It reads all there is before it serves.
START_S: Final = 120.0

_TEAM: Final = quote("Team 17")
_NAMED: Final = {"query": {"name": {"like": ".*t12.*"}}}
_OWNED: Final = {"query": {"endpoint": {"like": ".*service-17\\..*"}, "owner.id": "Team 17"}}
_NONE: Final = {"query": {"endpoint": {"like": ".*nowhere.*"}}}
_LAGGING: Final = {"query": {"lag": {"gt": 1000}}}
_UNUSED: Final = {"query": {"published": {"lt": 1}}}
_USED: Final = {"query": {"published": {"gt": 1}}}
_SETTING: Final = {"query": {"subscriptionPolicy.rate": {"gt": 1000}}}
_BY_TEAM: Final = {"query": {"or": [{"owner.id": "Team 3"}, {"owner.id": "Team 4"}]}}
_CASES: Final[dict[str, tuple[str, dict[str, Any] | None]]] = {
    "groups": ("/groups", None),
    "groups by a query": ("/query/groups", {"query": {"groupName": {"like": "g1.*"}}}),
    "all 5,000 topics by name": ("/topics", None),
    "… the tracked ones": ("/topics?tracked=true", None),
    "a page of 100 topics": ("/topics?limit=100&after=g20.t1", None),
    "topics of a group": ("/topics?groupName=g7", None),
    "subscriptions of a topic": ("/topics/g7.t7/subscriptions", None),
    "clients of a topic": ("/topics/g7.t7/clients", None),
    "search, 1 result": ("/search/query?q=g7.t1207", None),
    "search, 250 results": ("/search/query?q=service-17.test", None),
    "search, 1,000 of 25,000": ("/search/query?q=t", None),
    "statistics": ("/stats", None),
    "topics of an owner": (f"/topics/owner/Plaintext/{_TEAM}", None),
    "subscriptions of an owner": (f"/subscriptions/owner/Plaintext/{_TEAM}", None),
    "names by a query": ("/topics/query", _NAMED),
    "names of a topic's, by a query": ("/topics/g7.t7/subscriptions/query", _NAMED),
    "topics by a query": ("/query/topics", _NAMED),
    "topics by an empty one, 1,000": ("/query/topics", {"query": {}}),
    "subscriptions by a query": ("/query/subscriptions", _OWNED),
    "… of two owners": ("/query/subscriptions", _BY_TEAM),
    "… that finds none": ("/query/subscriptions", _NONE),
    "… of a setting, that finds none": ("/query/subscriptions", _SETTING),
    "… that is empty, 1,000": ("/query/subscriptions", {"query": {}}),
    "… that is empty, a page of 100": ("/query/subscriptions?limit=100", {"query": {}}),
    "figures of topics by name": ("/query/topics/metrics", _NAMED),
    "figures of topics, a page of 100": ("/query/topics/metrics?limit=100", {"query": {}}),
    "… that nobody published to: none": ("/query/topics/metrics", _UNUSED),
    "… that somebody did, 1,000": ("/query/topics/metrics", _USED),
    "figures of subscriptions by name": ("/query/subscriptions/metrics", _NAMED),
    "… a page of 100": ("/query/subscriptions/metrics?limit=100", {"query": {}}),
    "… that lag: none of them": ("/query/subscriptions/metrics", _LAGGING),
    "unhealthy, 400": ("/unhealthy", None),
    "unhealthy of an owner": (f"/unhealthy?ownerSourceName=Plaintext&ownerId={_TEAM}", None),
    "alerts, 400": ("/alerts?limit=1000", None),
    "inactive topics": ("/inactive-topics", None),
    "workload constraints, 400": ("/workload-constraints", None),
    "health of one": ("/topics/g7.t7/subscriptions/s7/health", None),
    "forecast of one": ("/topics/g7.t7/subscriptions/s7/forecast", None),
    "groups to compare": ("/consistency/groups", None),
    "inconsistent topics": ("/consistency/inconsistencies/topics", None),
    "audit": ("/audit", None),
    "jobs": ("/jobs", None),
    "providers": ("/oauth/providers", None),
    "a topic": ("/topics/g7.t7", None),
    "a subscription": ("/topics/g7.t7/subscriptions/s7", None),
    "figures of a subscription": ("/topics/g7.t7/subscriptions/s7/metrics", None),
}


@dataclass(frozen=True, slots=True)
class Measured:
    """The API, who asks it, and what it costs."""

    served: Served
    client: httpx.AsyncClient
    meter: Meter

    async def round_of(self, case: str) -> dict[str, float]:
        """Requests one after the other, and then one whose turns are watched."""
        took: list[float] = []
        before, began = self.meter.read(), time.perf_counter()
        while len(took) < REQUESTS and (len(took) < LEAST or time.perf_counter() - began < ROUND_S):
            asked = time.perf_counter()
            answer = await self.ask(case)
            took.append((time.perf_counter() - asked) * 1000)
        spent = self.meter.read().since(before)
        with self.served.watched() as turns:
            await self.ask(case)
        return {
            "p50 ms": percentile(took, 50),
            "p99 ms": percentile(took, 99),
            "API CPU ms": spent.api / len(took) * 1000,
            "PostgreSQL CPU ms": spent.postgres / len(took) * 1000,
            "longest turn ms": turns.longest_s * 1000,
            "KB": len(answer.content) / 1000,
        }

    async def ask(self, case: str) -> httpx.Response:
        """One request."""
        path, body = _CASES[case]
        answer = await self.client.request("POST" if body else "GET", path, json=body)
        answer.raise_for_status()
        return answer


@pytest.fixture
async def measured(postgres_url: str, database: Database) -> AsyncIterator[Measured]:
    await catalogue.fill(database)
    app = create_app(Settings(secret_key=SecretStr(KEY)), database_url=postgres_url)
    meter = Meter(postmaster_of(postgres_url))
    async with (
        Served(app) as served,
        httpx.AsyncClient(base_url=served.url, timeout=START_S, trust_env=False) as client,
    ):
        (await client.get("/status/ready")).raise_for_status()
        with spared():
            yield Measured(served, client, meter)


@contextmanager
def spared() -> Iterator[None]:
    """The collector of garbage as the API's own process has it."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


def postmaster_of(url: str) -> int:
    """The process of the server, whose children the backends are."""
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT pg_read_file('postmaster.pid', 0, 32)").fetchone()
    assert row is not None
    return int(str(row[0]).split()[0])


async def test_management_reads_with_many_topics_and_subscriptions(measured: Measured) -> None:
    report = Report(
        "management",
        f"Management reads, {catalogue.TOPICS:,} topics, {catalogue.SUBSCRIPTIONS:,} subscriptions",
    )
    for case in _CASES:
        await measured.ask(case)
        report.add(case, [await measured.round_of(case) for _ in range(ROUNDS)])
    report.write(plots=("p99 ms", "API CPU ms"))
