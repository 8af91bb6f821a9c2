"""How long lists, queries and search take with 5,000 topics and 20,000 subscriptions."""

import time
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import httpx
import pytest
from pydantic import SecretStr
from sqlalchemy import insert, text

from app.config import Settings
from app.domain.owner import Owner
from app.domain.subscription import Subscription
from app.domain.topic import Topic
from app.main import create_app
from app.storage.changes import ChangeFeed
from app.storage.database import Database
from app.storage.groups import GroupRepository
from app.storage.models import SubscriptionRow, TopicRow
from app.storage.rows import subscription_values, topic_values
from app.storage.sealing import vault_of
from tests.benchmarks.figures import Report
from tests.benchmarks.percentiles import percentile
from tests.fakes.keys import KEY
from tests.fakes.memory_log import MemoryLog
from tests.integration.api.server import given, serving

TOPICS: Final = 5_000
SUBSCRIPTIONS: Final = 20_000
GROUPS: Final = 50
# Rows of one statement.
PER_GO: Final = 1_000
ROUNDS: Final = 3
REQUESTS: Final = 20
START_S: Final = 120.0

LIKE: Final = {"query": {"name": {"like": ".*t12.*"}}}
NARROW: Final = {"query": {"endpoint": {"like": ".*service-17\\..*"}, "owner.id": "Team 17"}}
CASES: Final[dict[str, tuple[str, str, dict[str, Any] | None]]] = {
    "all groups": ("GET", "/groups", None),
    "all 5,000 topics by name": ("GET", "/topics", None),
    "a page of 100 topics": ("GET", "/topics?limit=100&after=g20.t1", None),
    "topics of a group": ("GET", "/topics?groupName=g7", None),
    "a topic": ("GET", "/topics/g7.t7", None),
    "subscriptions of a topic": ("GET", "/topics/g7.t7/subscriptions", None),
    "a subscription": ("GET", "/topics/g7.t7/subscriptions/s7", None),
    "search, 1 result": ("GET", "/search/query?q=g7.t1207", None),
    "search, 200 results": ("GET", "/search/query?q=service-17.test", None),
    "search, 1,000 of 25,000": ("GET", "/search/query?q=t", None),
    "statistics": ("GET", "/stats", None),
    "topics of an owner": ("GET", "/topics/owner/Plaintext/Team%2017", None),
    "subscriptions of an owner": ("GET", "/subscriptions/owner/Plaintext/Team%2017", None),
    "names by a query": ("POST", "/topics/query", LIKE),
    "topics by a query": ("POST", "/query/topics", LIKE),
    "subscriptions by a query": ("POST", "/query/subscriptions", NARROW),
    "a page of 100 by any query": ("POST", "/query/subscriptions?limit=100", {"query": {}}),
    "figures by names": ("POST", "/query/subscriptions/metrics", LIKE),
}


@pytest.fixture
async def api(postgres_url: str, database: Database) -> AsyncIterator[httpx.AsyncClient]:
    await populate(database)
    log, settings = MemoryLog(), Settings(secret_key=SecretStr(KEY))
    app = create_app(settings, database_url=postgres_url, log=given(log))
    async with serving(app) as client:
        # It reads all there is before it serves.
        (await client.get("/status/ping", timeout=START_S)).raise_for_status()
        yield client


async def populate(database: Database) -> None:
    """All of it, past the API, which would take minutes."""
    async with database.transaction() as session:
        for number in range(GROUPS):
            await GroupRepository(session).add(f"g{number}")
    for first in range(0, TOPICS, PER_GO):
        await insert_topics(database, [a_topic(n) for n in range(first, first + PER_GO)])
    for first in range(0, SUBSCRIPTIONS, PER_GO):
        await insert_subscriptions(
            database, [a_subscription(n) for n in range(first, first + PER_GO)]
        )
    async with database.transaction() as session:
        # As autovacuum does it within a minute.
        await session.execute(text("ANALYZE topics, subscriptions"))


def a_topic(number: int) -> Topic:
    owner = Owner(id=f"Team {number % 100}")
    return Topic(name=f"g{number % GROUPS}.t{number}", owner=owner)


def a_subscription(number: int) -> Subscription:
    return Subscription(
        id=f"{number:032x}",
        topic=a_topic(number % TOPICS).name,
        name=f"s{number}",
        endpoint=f"http://service-{number % 100}.test/{number}",
        owner=Owner(id=f"Team {number % 100}"),
        start=dict.fromkeys(range(8), 0),
    )


async def insert_topics(database: Database, topics: Sequence[Topic]) -> None:
    async with database.transaction() as session:
        change = await ChangeFeed(session).next_number()
        rows = [
            {"name": each.name, "group_name": each.group, "change": change, **topic_values(each)}
            for each in topics
        ]
        await session.execute(insert(TopicRow), rows)


async def insert_subscriptions(database: Database, subscriptions: Sequence[Subscription]) -> None:
    async with database.transaction() as session:
        change = await ChangeFeed(session).next_number()
        named = [
            {"id": each.id, "topic": each.topic, "name": each.name, "change": change}
            | subscription_values(each, vault_of(session))
            for each in subscriptions
        ]
        await session.execute(insert(SubscriptionRow), named)


async def timed(api: httpx.AsyncClient, case: str) -> dict[str, float]:
    """Milliseconds of a round of requests, one after the other."""
    method, path, body = CASES[case]
    took = []
    for _ in range(REQUESTS):
        began = time.perf_counter()
        answer = await api.request(method, path, json=body)
        took.append((time.perf_counter() - began) * 1000)
        answer.raise_for_status()
    return {
        "p50 ms": percentile(took, 50),
        "p99 ms": percentile(took, 99),
        "KB": len(answer.content) / 1000,
    }


async def test_management_reads_with_many_topics_and_subscriptions(
    api: httpx.AsyncClient,
) -> None:
    report = Report(
        "management", f"Management reads, {TOPICS:,} topics and {SUBSCRIPTIONS:,} subscriptions"
    )
    for case in CASES:
        report.add(case, [await timed(api, case) for _ in range(ROUNDS)])
    report.write(plots=("p50 ms", "p99 ms"))
