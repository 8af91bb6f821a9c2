"""Reading once and delivering to many, on every log."""

import pytest

from app.domain.topic import Topic
from app.log.interface import MessageLog
from tests.fakes.worker import World, delivered

SUBSCRIPTIONS = 50
MESSAGES = 600
BODY = b"x" * 1_000


@pytest.fixture
def world(log: MessageLog) -> World:
    return World(log)


async def publish(world: World, topic: Topic) -> None:
    for start in range(0, MESSAGES, 100):
        await world.publish(topic, *(b"%d " % n + BODY for n in range(start, start + 100)))


async def test_a_topic_with_fifty_subscriptions_is_read_once(world: World) -> None:
    topic = await world.topic(partitions=2)
    subscriptions = [await world.subscribe(topic, f"s{n}") for n in range(SUBSCRIPTIONS)]
    async with world.worker():
        await world.plane.until(lambda: len(world.plane.statuses) == 2 * SUBSCRIPTIONS)
        before = world.log.stats.fetched_bytes
        await publish(world, topic)
        await world.plane.until(lambda: all(has_all(world, s.id) for s in subscriptions))
        fetched = world.log.stats.fetched_bytes - before
    topic_bytes = await size_of(world, topic)
    assert topic_bytes <= fetched <= 1.25 * topic_bytes


async def test_what_waits_when_a_worker_starts_is_read_once_for_all(world: World) -> None:
    topic = await world.topic(partitions=2)
    subscriptions = [await world.subscribe(topic, f"s{n}") for n in range(SUBSCRIPTIONS)]
    await publish(world, topic)
    before = world.log.stats.fetched_bytes
    async with world.worker():
        await world.plane.until(lambda: all(has_all(world, s.id) for s in subscriptions))
        fetched = world.log.stats.fetched_bytes - before
    topic_bytes = await size_of(world, topic)
    assert topic_bytes <= fetched <= 1.25 * topic_bytes


async def test_one_that_was_suspended_catches_up_and_the_others_read_nothing_again(
    world: World,
) -> None:
    topic = await world.topic(partitions=2)
    others = [await world.subscribe(topic, f"s{n}") for n in range(9)]
    late = await world.subscribe(topic, "late")
    async with world.worker():
        await world.plane.until_applied()
        suspended = world.suspend(late)
        await world.plane.until_applied()
        await publish(world, topic)
        await world.plane.until(lambda: all(has_all(world, s.id) for s in others))
        before = world.log.stats.fetched_bytes
        world.resume(suspended)
        await world.plane.until(lambda: has_all(world, late.id))
        read_again = world.log.stats.fetched_bytes - before
    assert read_again <= 1.25 * await size_of(world, topic)
    assert sorted(world.endpoints.bodies("http://late.test/")) == sorted(
        b"%d " % n + BODY for n in range(MESSAGES)
    )


def has_all(world: World, subscription_id: str) -> bool:
    return delivered(world, subscription_id) == MESSAGES


async def size_of(world: World, topic: Topic) -> int:
    """The bytes of the topic, read one partition after the other from its beginning."""
    size = 0
    for partition, bounds in (
        await world.log.bounds(await world.log.partitions(topic.name))
    ).items():
        offset = bounds.start
        while offset < bounds.end:
            chunk = await world.log.fetch(partition, offset, bytes_max=1 << 20)
            offset, size = chunk.next_offset, size + chunk.size
    return size
