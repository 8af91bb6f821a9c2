"""`GET /workers`: the workers that live, as they report themselves."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import httpx
from sqlalchemy import text

from app.services.applied_changes import LIVE_WITHIN
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database
from app.storage.health.statuses import StatusRepository
from tests.integration.storage.builders import a_cursor, a_worker, beat, beat_in


async def test_workers_that_live_are_listed_by_id(
    api: httpx.AsyncClient, database: Database
) -> None:
    assert (await api.get("/workers")).json() == []
    await beat(database, a_worker("w-2"), a_worker("w-1"))
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
        await beat_in(session, a_worker("w-1"))
        await session.execute(
            text("UPDATE workers SET seen_at = seen_at - :age"), {"age": LIVE_WITHIN}
        )
    assert (await api.get("/workers")).json() == []


async def test_the_partitions_that_a_worker_delivers_are_listed_by_topic(
    api: httpx.AsyncClient, database: Database
) -> None:
    ids = {}
    for topic in ("shop.spare", "shop.orders"):
        (await api.post("/topics", json={"name": topic})).raise_for_status()
        for name in ("billing", "suspended"):
            body = {"name": name, "endpoint": "http://subscriber.test/"}
            (await api.post(f"/topics/{topic}/subscriptions", json=body)).raise_for_status()
            async with database.transaction() as session:
                found = await SubscriptionRepository(session).get(topic, name)
            ids[topic, name] = found.id
        path = f"/topics/{topic}/subscriptions/suspended/state"
        (await api.put(path, json="SUSPENDED")).raise_for_status()
    reports = [
        ("shop.orders", "billing", 2, "w-1"),
        ("shop.orders", "billing", 0, "w-1"),
        ("shop.orders", "billing", 1, "w-2"),
        # Of the owner before.
        ("shop.orders", "suspended", 1, "w-1"),
        ("shop.spare", "billing", 0, "w-1"),
    ]
    await beat(database, a_worker("w-1"), a_worker("w-2"))
    async with database.transaction() as session:
        for topic, name, partition, worker in reports:
            cursor = replace(a_cursor(ids[topic, name], partition), topic=topic, worker_id=worker)
            await StatusRepository(session).write([cursor], [])
    orders, spare = (
        {"topic": "shop.orders", "partitions": [0, 2]},
        {"topic": "shop.spare", "partitions": [0]},
    )
    assert (await api.get("/workers/w-1/partitions")).json() == [orders, spare]
    assert (await api.get("/workers/w-2/partitions")).json() == [orders | {"partitions": [1]}]
    first = await api.get("/workers/w-1/partitions", params={"limit": 1})
    assert first.json() == [orders]
    assert (await api.get(first.links["next"]["url"])).json() == [spare]


async def test_a_worker_that_does_not_run_has_no_partitions(api: httpx.AsyncClient) -> None:
    answer = await api.get("/workers/w-9/partitions")
    assert (answer.status_code, answer.json()["code"]) == (404, "WORKER_NOT_EXISTS")
    assert answer.json()["message"] == "No worker w-9 is running"
