"""A database that takes no changes: what needs it says so, and what does not goes on."""

from collections.abc import Mapping
from pathlib import Path

import httpx

from tests.e2e.service import Service, eventually, has_all, running
from tests.e2e.test_crashes import TOPIC, numbered
from tests.fakes.subscriber import Subscriber
from tests.servers.postgres import PostgresServer


async def refuses_changes(service: Service) -> bool:
    answer = await service.http.post("/topics", json={"name": "other.orders"})
    return bool(
        answer.status_code == httpx.codes.SERVICE_UNAVAILABLE
        and answer.json()["code"] == "STORAGE_UNAVAILABLE"
        and "The database takes no changes: it is read-only" in answer.json()["message"]
    )


async def takes_changes(service: Service) -> bool:
    return (await service.http.patch(f"/topics/{TOPIC}/subscriptions/s", json={})).is_success


async def test_workers_go_on_while_the_database_is_read_only(
    on_kafka: Mapping[str, str], postgres_server: PostgresServer, logs: Path
) -> None:
    configuration = {**on_kafka, "ANGELIA_DATABASE_URL": postgres_server.url}
    async with running(configuration, logs) as service, Subscriber() as receiver:
        await service.topic(TOPIC)
        path = await service.subscribe(TOPIC, "s", receiver.url)
        published = await service.publish_all(TOPIC, numbered(20))
        await has_all(receiver, published)
        postgres_server.take_changes(yes=False)
        await eventually(lambda: refuses_changes(service))
        published |= await service.publish_all(TOPIC, numbered(50, start=20))
        await has_all(receiver, published)
        postgres_server.take_changes(yes=True)
        await eventually(lambda: takes_changes(service))
        await service.accounted(path, len(published))
        service.assert_once(receiver.message_ids, published)
