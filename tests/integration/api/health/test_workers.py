"""`GET /workers`: the workers that live, as they report themselves."""

from datetime import UTC, datetime, timedelta

import httpx
from sqlalchemy import text

from app.services.applied_changes import LIVE_WITHIN
from app.storage.database import Database
from app.storage.health.workers import WorkerRepository
from tests.integration.storage.builders import a_worker


async def test_workers_that_live_are_listed_by_id(
    api: httpx.AsyncClient, database: Database
) -> None:
    assert (await api.get("/workers")).json() == []
    async with database.transaction() as session:
        for name in ("w-2", "w-1"):
            await WorkerRepository(session).beat(a_worker(name))
    first, second = (await api.get("/workers")).json()
    assert (first["id"], second["id"]) == ("w-1", "w-2")
    assert first.keys() == {
        "id", "host", "pid", "partitions", "appliedChange", "startedAt", "seenAt",
    }  # fmt: skip
    assert datetime.now(UTC) - datetime.fromisoformat(first["seenAt"]) < timedelta(minutes=10)


async def test_a_worker_that_has_not_reported_for_long_is_not_listed(
    api: httpx.AsyncClient, database: Database
) -> None:
    async with database.transaction() as session:
        await WorkerRepository(session).beat(a_worker("w-1"))
        await session.execute(
            text("UPDATE workers SET seen_at = seen_at - :age"), {"age": LIVE_WITHIN}
        )
    assert (await api.get("/workers")).json() == []
