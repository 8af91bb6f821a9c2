"""The log or the database goes away and comes back: what must go on does, the rest catches up."""

from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest

from tests.e2e.service import Service, eventually, has_all, running
from tests.e2e.test_crashes import TOPIC, numbered
from tests.fakes.subscriber import Subscriber
from tests.servers.kafka import KafkaBroker
from tests.servers.postgres import PostgresServer


@pytest.fixture(scope="module")
def kafka_broker(own_kafka_broker: KafkaBroker) -> KafkaBroker:
    """One that may be killed."""
    return own_kafka_broker


async def refused(service: Service) -> None:
    """Publishing is answered with 503 and when to try again; the API itself is well.

    No log ends it: the time that publishing has does.
    """
    response = await service.http.post(f"/topics/{TOPIC}", content=b"{}")
    assert response.status_code == httpx.codes.SERVICE_UNAVAILABLE
    assert int(response.headers["Retry-After"]) >= 1
    assert response.json()["code"] == "SENDING_TO_KAFKA_TIMEOUT"
    assert (await service.http.get("/status/health")).is_success


async def publishable(service: Service) -> bool:
    return (await service.http.post(f"/topics/{TOPIC}", content=b"{}")).is_success


async def test_kafka_goes_down_and_comes_back(
    on_kafka: Mapping[str, str], logs: Path, kafka_broker: KafkaBroker
) -> None:
    async with running(on_kafka, logs) as service, Subscriber() as receiver:
        await service.topic(TOPIC)
        path = await service.subscribe(TOPIC, "s", receiver.url)
        published = await service.publish_all(TOPIC, numbered(100))
        await service.accounted(path, len(published))
        kafka_broker.kill()
        try:
            for _ in range(3):
                await refused(service)
        finally:
            kafka_broker.restart()
        await eventually(lambda: publishable(service))
        published |= await service.publish_all(TOPIC, numbered(100, start=100))
        await has_all(receiver, published)


async def test_deliveries_go_on_without_postgres_and_all_is_counted_when_it_is_back(
    kafka_broker: KafkaBroker, kafka_namespace: str, postgres_server: PostgresServer, logs: Path
) -> None:
    configuration = {
        "ANGELIA_DATABASE_URL": postgres_server.url,
        "ANGELIA_AUTH": "off",
        "ANGELIA_KAFKA_BOOTSTRAP": kafka_broker.bootstrap,
        "ANGELIA_NAMESPACE": kafka_namespace,
    }
    async with running(configuration, logs) as service, Subscriber() as receiver:
        await service.topic(TOPIC)
        path = await service.subscribe(TOPIC, "s", receiver.url)
        published = await service.publish_all(TOPIC, numbered(50))
        await has_all(receiver, published)
        postgres_server.kill()
        published |= await service.publish_all(TOPIC, numbered(100, start=50))
        await has_all(receiver, published)
        postgres_server.start()
        await eventually(lambda: is_ready(service))
        await service.accounted(path, len(published))
        before = len(receiver.received)
        await service.subscribe(TOPIC, "later", f"{receiver.url}later")
        newer = await service.publish_all(TOPIC, numbered(10, start=150))
        await receiver.wait_until(
            lambda: all(newer.keys() <= ids_at(receiver, path) for path in ("/", "/later"))
        )
    assert ids_at(receiver, "/") == published.keys() | newer.keys()
    assert len(receiver.received) > before


def ids_at(receiver: Subscriber, path: str) -> set[str]:
    return {each.message_id for each in receiver.received if each.path == path}


async def is_ready(service: Service) -> bool:
    return (await service.http.get("/status/ready")).is_success


async def test_postgres_with_the_embedded_log_goes_down_and_comes_back(
    postgres_server: PostgresServer, logs: Path
) -> None:
    configuration = {"ANGELIA_DATABASE_URL": postgres_server.url, "ANGELIA_AUTH": "off"}
    async with running(configuration, logs) as service, Subscriber() as receiver:
        await service.topic(TOPIC)
        path = await service.subscribe(TOPIC, "s", receiver.url)
        published = await service.publish_all(TOPIC, numbered(100))
        await receiver.wait_for(100)
        await service.accounted(path, 100)
        postgres_server.kill()
        await refused(service)
        postgres_server.start()
        await eventually(lambda: publishable(service))
        published |= await service.publish_all(TOPIC, numbered(100, start=100))
        await has_all(receiver, published)
    service.assert_once(receiver.message_ids, receiver.message_ids)
