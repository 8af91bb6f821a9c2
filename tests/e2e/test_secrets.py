"""Secrets through the whole service: keys and signing secrets are changed while messages flow."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from tests.e2e.cli import Place
from tests.e2e.service import Service, created, running
from tests.fakes.keys import KEY, OTHER_KEY
from tests.fakes.subscriber import Received, Subscriber

TOPIC = "secrets.orders"
HEADER = {"name": "X-Api-Key", "value": "s3cret-value"}


def verifies(secret: str, received: Received) -> bool:
    try:
        Webhook(secret).verify(received.body, dict(received.headers))
    except WebhookVerificationError:
        return False
    return True


@asynccontextmanager
async def publishing(service: Service) -> AsyncIterator[list[str]]:
    """Messages one after the other while the block runs; their ids."""
    published: list[str] = []
    stopping = asyncio.Event()

    async def publish() -> None:
        while not stopping.is_set():
            published.append(await service.publish(TOPIC, b'{"n":%d}' % len(published)))

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(publish())
        try:
            yield published
        finally:
            stopping.set()


async def a_secret(service: Service, path: str, **body: object) -> str:
    made = created(await service.http.post(f"{path}/secrets", json=body))
    await service.applied(path)
    secret: str = made.json()["secret"]
    return secret


async def test_a_signing_secret_is_changed_under_traffic_and_no_delivery_is_unverified(
    on_embedded_log: Mapping[str, str], logs: Path
) -> None:
    configuration = {**on_embedded_log, "ANGELIA_SECRET_KEY": KEY}
    async with (
        running(configuration, logs, workers=2) as service,
        Subscriber() as subscriber,
    ):
        await service.topic(TOPIC, partitions=4)
        path = await service.subscribe(TOPIC, "billing", subscriber.url)
        await service.publish(TOPIC, b'"unsigned"')
        await service.accounted(path, 1)
        subscriber.received.clear()
        old = await a_secret(service, path)
        async with publishing(service) as published:
            await subscriber.wait_for(50)
            new = await a_secret(service, path, overlap=3600)
            changed = len(subscriber.received)
            await subscriber.wait_for(changed + 50)
            before = len(subscriber.received)
            first, second = (await service.http.get(f"{path}/secrets")).json()
            gone = await service.http.delete(f"{path}/secrets/{second['id']}")
            gone.raise_for_status()
            await service.applied(path)
            after = len(subscriber.received)
            await subscriber.wait_for(after + 50)
        assert (first.get("expiresAt"), "expiresAt" in second) == (None, True)
        await service.accounted(path, 1 + len(published))
        received = subscriber.received
        assert {each.message_id for each in received} == set(published)
        assert all(verifies(old, each) for each in received[:before])
        # Requests that were in flight meanwhile may have arrived a moment later.
        in_the_air = 20
        assert all(verifies(new, each) for each in received[changed + in_the_air :])
        assert all(verifies(old, each) or verifies(new, each) for each in received)
        assert verifies(new, received[-1])
        assert not verifies(old, received[-1])
    written = "".join(each.log.read_text(errors="replace") for each in service.processes)
    assert not [secret for secret in (old, new) if secret in written]


async def test_a_worker_without_the_key_waits_and_a_changed_key_loses_nothing(
    on_embedded_log: Mapping[str, str], logs: Path, tmp_path: Path
) -> None:
    configuration = {**on_embedded_log, "ANGELIA_SECRET_KEY": KEY}
    async with running(configuration, logs, workers=0) as service, Subscriber() as subscriber:
        await service.topic(TOPIC, partitions=2)
        path = await service.subscribe(TOPIC, "billing", f"{subscriber.url}billing")
        (await service.http.put(path, json={"headers": [HEADER]})).raise_for_status()
        plain = await service.subscribe(TOPIC, "plain", f"{subscriber.url}plain")
        service.configuration = {**configuration, "ANGELIA_SECRET_KEY": OTHER_KEY}
        stranger = await service.worker()
        for number in range(5):
            await service.publish(TOPIC, b"%d" % number)
        await service.accounted(plain, 5)
        assert {each.path for each in subscriber.received} == {"/plain"}
        assert await stranger.stop() == 0
        assert "is stored under the key" in stranger.log.read_text()
        both = {**configuration, "ANGELIA_SECRET_KEY": f"{OTHER_KEY},{KEY}"}
        place = Place(home=tmp_path, settings=both)
        rotated = await asyncio.to_thread(place.run, "secrets", "rotate")
        assert (rotated.returncode, rotated.stdout.split(",")[0]) == (
            0,
            "1 secrets: 1 encrypted again",
        )
        worker = await service.worker()
        figures = await service.accounted(path, 5)
        assert figures["delivered"] == 5
        came = [each for each in subscriber.received if each.path == "/billing"]
        assert len({each.message_id for each in came}) == 5
        assert {each.headers.get("x-api-key") for each in came} == {"s3cret-value"}
        assert await worker.stop() == 0
    written = "".join(each.log.read_text(errors="replace") for each in service.processes)
    assert "s3cret-value" not in written
