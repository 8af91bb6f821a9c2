"""How many statements an answer takes: as many for twenty of a kind as for two."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NamedTuple

import httpx
import pytest
from fastapi.routing import APIRoute
from pydantic import SecretStr
from sqlalchemy import Engine, event, text

from app.api.management.application import ROUTERS
from app.composition import Parts, running
from app.config import Settings
from app.services.metrics.history_recorder import LEASE
from app.storage.database import Database
from app.storage.runtime.leases import LeaseRepository
from tests.benchmarks import catalogue
from tests.fakes.keys import KEY
from tests.fakes.memory_log import MemoryLog
from tests.integration.api.server import given

FEW, MANY = 2, 20
NAMES = {"topic": "g0.t0", "name": "s0", "group": "g0", "source": "Plaintext", "owner": "Team 0"}
QUERIES: list[dict[str, Any]] = [
    {},
    {"name": {"like": ".*[0-9]"}},
    {"description": {"ne": "x"}, "no.such": {"ne": 1}},
]


class Asked(NamedTuple):
    """A question for a list, or for one of a kind."""

    method: str
    path: str
    body: dict[str, Any] | None = None


def questions() -> Iterator[Asked]:
    for router in ROUTERS:
        for route in router.routes:
            assert isinstance(route, APIRoute)
            path = re.sub(r"\{(\w+)(?::\w+)?\}", lambda found: NAMES.get(found[1], "0"), route.path)
            if "GET" in (route.methods or ()):
                yield Asked("GET", path)
            elif "query" in path:
                yield from (Asked("POST", path, {"query": query}) for query in QUERIES)
    yield Asked("GET", "/search/query?q=s")


@contextmanager
def statements() -> Iterator[list[str]]:
    """Those of the task that runs the block, and none of what runs beside it."""
    found: list[str] = []
    task = asyncio.current_task()

    def note(*execution: Any) -> None:  # noqa: ANN401 - SQLAlchemy's arguments
        if asyncio.current_task() is task:
            found.append(execution[2])

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        event.remove(Engine, "before_cursor_execute", note)


@pytest.fixture
async def api(postgres_url: str, database: Database) -> AsyncIterator[httpx.AsyncClient]:
    """In the test's own task. It records no history, which would be read by one more statement."""
    async with database.transaction() as session:
        assert await LeaseRepository(session).take(LEASE, "the test", timedelta(hours=1))
    settings, parts = (
        Settings(secret_key=SecretStr(KEY)),
        Parts(only="all", open_a_log=given(MemoryLog()), announce=lambda _token: None),
    )
    async with running(settings, postgres_url, parts) as app:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            yield client


async def counted(api: httpx.AsyncClient) -> dict[str, tuple[int, int]]:
    """For each question: how many statements, and of what status the answer is."""
    counts = {}
    for each in questions():
        with statements() as found:
            answer = await api.request(each.method, each.path, json=each.body)
        counts[f"{each.method} {each.path} {each.body}"] = (len(found), answer.status_code)
    return counts


async def test_lists_take_as_many_statements_however_long_they_are(
    api: httpx.AsyncClient, database: Database
) -> None:
    await catalogue.fill(database, topics=FEW, subscriptions=FEW, one_in=1)
    few = await counted(api)
    async with database.transaction() as session:
        await session.execute(text("TRUNCATE groups, topics, log_topics, workers CASCADE"))
        await session.execute(
            text("TRUNCATE cursors, subscription_loads, subscription_health, alerts")
        )
    await catalogue.fill(database, topics=MANY, subscriptions=MANY, one_in=1)
    many = await counted(api)
    assert many == few
    answered = [statements for statements, status in few.values() if status == httpx.codes.OK]
    assert len(answered) > MANY
    # More would be a transaction too many, or a question for each.
    assert max(answered) <= 6
