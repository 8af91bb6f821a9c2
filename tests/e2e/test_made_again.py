"""Deleted while workers deliver it, and made again under the same name, on both logs."""

from collections.abc import Mapping
from pathlib import Path

from tests.e2e.service import Service, has_all, running
from tests.fakes.subscriber import Reply, Subscriber
from tests.servers.service import ONE_LOG

TOPIC = "again.orders"
MESSAGES = 60
BUSY = Reply(status=503)


@ONE_LOG
async def test_only_what_is_published_afterwards_comes_and_only_to_the_new_one(
    configuration: Mapping[str, str], logs: Path
) -> None:
    async with (
        running(configuration, logs, workers=2) as service,
        Subscriber(BUSY) as old,
        Subscriber() as new,
        Subscriber() as newest,
    ):
        await service.topic(TOPIC, partitions=4)
        path = await service.subscribe(TOPIC, "s", old.url, messageBackoff=200)
        await published(service, "old")
        await old.wait_until(lambda: len(old.received) >= MESSAGES)
        # Its messages are in flight, and wait for their retries, at both workers.
        await deleted(service, path)
        path = await service.subscribe(TOPIC, "s", new.url)
        second = await published(service, "new")
        await has_all(new, second)

        # The topic as well, while its worker is at the end of it.
        await deleted(service, path)
        await deleted(service, f"/topics/{TOPIC}")
        await service.topic(TOPIC, partitions=2)
        path = await service.subscribe(TOPIC, "s", newest.url)
        seen = len(old.received)
        third = await published(service, "newest")
        await has_all(newest, third)
        assert (await service.accounted(path, MESSAGES))["delivered"] == MESSAGES
    assert set(new.message_ids) == set(second)
    service.assert_once(newest.message_ids, third)
    # What was deleted long ago is not tried any more.
    assert len(old.received) == seen


async def published(service: Service, what: str) -> Mapping[str, bytes]:
    """Messages over all partitions; their bodies by id."""
    bodies = [(f'"{what} {number}"'.encode(), str(number)) for number in range(MESSAGES)]
    return await service.publish_all(TOPIC, bodies)


async def deleted(service: Service, path: str) -> None:
    (await service.http.delete(path)).raise_for_status()
