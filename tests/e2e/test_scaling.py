"""Workers come and go: partitions are shared, taken over, and moved no more than needed."""

from collections.abc import Mapping
from pathlib import Path

from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import open_database
from app.storage.health.statuses import StatusRepository
from tests.e2e.service import Service, eventually, has_all, running
from tests.e2e.test_crashes import TOPIC, numbered
from tests.fakes.subscriber import Subscriber

# By chance one of two workers may get all of a topic: of so many in no run that anybody will see.
PARTITIONS = 24


async def owners(configuration: Mapping[str, str]) -> dict[int, str]:
    """Which worker reports each partition's cursor."""
    url = configuration["ANGELIA_DATABASE_URL"]
    async with open_database(url) as database, database.transaction() as session:
        subscription = await SubscriptionRepository(session).get(TOPIC, "s")
        statuses = await StatusRepository(session).cursors(subscription.id)
    # Of a new subscription places are known before any worker has it.
    return {status.partition: status.worker_id for status in statuses if status.worker_id}


async def shared_by(configuration: Mapping[str, str], count: int) -> dict[int, str]:
    """Wait until `count` workers share the partitions; who has which."""
    found: dict[int, str] = {}

    async def shared() -> bool:
        # What is returned is what was seen here: a second look may see others.
        nonlocal found
        found = await owners(configuration)
        return len(found) == PARTITIONS and len(set(found.values())) == count

    await eventually(shared)
    return found


async def test_two_workers_share_one_dies_a_third_joins(
    on_kafka: Mapping[str, str], logs: Path
) -> None:
    async with running(on_kafka, logs, workers=2) as service, Subscriber() as receiver:
        await service.topic(TOPIC, partitions=PARTITIONS)
        await service.subscribe(TOPIC, "s", receiver.url)
        shared = await shared_by(on_kafka, 2)
        published = await service.publish_all(TOPIC, numbered(300))
        await has_all(receiver, published)

        dead, survivor = service.processes[-1], service.processes[-2]
        await dead.kill()
        published |= await service.publish_all(TOPIC, numbered(300, start=300))
        await has_all(receiver, published)
        alone = await shared_by(on_kafka, 1)
        assert f"-{survivor.pid}-" in alone[0]
        assert set(alone.values()) < set(shared.values())

        await service.worker()
        joined = await shared_by(on_kafka, 2)
        moved = {p for p in joined if joined[p] != alone[p]}
        assert moved == {p for p, worker in joined.items() if worker not in alone.values()}
        published |= await service.publish_all(TOPIC, numbered(300, start=600))
        await has_all(receiver, published)


async def test_a_worker_that_joins_takes_partitions_without_sending_anything_twice(
    configuration: Mapping[str, str], logs: Path
) -> None:
    async with running(configuration, logs) as service, Subscriber() as receiver:
        await service.topic(TOPIC, partitions=PARTITIONS)
        path = await service.subscribe(TOPIC, "s", receiver.url)
        published = await service.publish_all(TOPIC, numbered(300))
        await service.worker()
        published |= await publish_until_shared(service, configuration)
        await service.accounted(path, len(published))
    service.assert_once(receiver.message_ids, published)


async def publish_until_shared(
    service: Service, configuration: Mapping[str, str]
) -> dict[str, bytes]:
    published: dict[str, bytes] = {}

    async def shared() -> bool:
        start = 300 + len(published)
        published.update(await service.publish_all(TOPIC, numbered(100, start=start)))
        return len(set((await owners(configuration)).values())) == 2

    await eventually(shared)
    return published
