"""Reading once and delivering to many, on every log."""

from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

import pytest
from structlog.testing import capture_logs

from app.domain.catalogue.subscription import Subscription
from app.domain.catalogue.topic import Topic
from app.log.interface import MessageLog
from tests.fakes.worker import World, delivered

SUBSCRIPTIONS = 50
MESSAGES = 300
BODY = b"x" * 1_000
# A worker that loses its partitions says nothing about reading once.
ROUNDS_MAX = 3


@pytest.fixture
def world(log: MessageLog) -> World:
    return World(log)


async def publish(world: World, topic: Topic) -> None:
    for start in range(0, MESSAGES, 100):
        await world.publish(topic, *(b"%d " % n + BODY for n in range(start, start + 100)))


async def test_a_topic_with_fifty_subscriptions_is_read_once(world: World) -> None:
    read = await read_while_owned(world, publish_when_open)
    assert read.topic_bytes <= read.fetched <= 1.25 * read.topic_bytes, read.logged


async def test_what_waits_when_a_worker_starts_is_read_once_for_all(world: World) -> None:
    read = await read_while_owned(world, publish_before_start)
    assert read.topic_bytes <= read.fetched <= 1.25 * read.topic_bytes, read.logged


@dataclass(frozen=True, slots=True)
class Read:
    """What a worker fetched of a topic of `topic_bytes`, and what it logged meanwhile."""

    topic_bytes: int
    fetched: int
    logged: list[MutableMapping[str, Any]]

    @property
    def owned_throughout(self) -> bool:
        changes = [each["to"] for each in self.logged if each["event"] == "ownership_changed"]
        return set(changes) <= {"Assigned"}


Deliver = Callable[[World, Topic, list[Subscription]], Awaitable[int]]


async def read_while_owned(world: World, deliver: Deliver) -> Read:
    """Let a worker read a topic for fifty subscriptions, without losing it to another member.

    A broker that does not answer for six seconds ends the worker's session. The worker then reads
    again from its last commits, which is right, and says nothing about this test's subject.
    """
    for number in range(ROUNDS_MAX):
        topic = await world.topic(f"shop.orders{number}", partitions=2)
        subscriptions = [
            await world.subscribe(topic, f"s{number}-{n}") for n in range(SUBSCRIPTIONS)
        ]
        with capture_logs() as logged:
            fetched = await deliver(world, topic, subscriptions)
        read = Read(await size_of(world, topic), fetched, logged)
        if read.owned_throughout:
            return read
        for each in subscriptions:
            world.plane.delete(each)
    raise AssertionError(read.logged)


async def publish_when_open(world: World, topic: Topic, subscriptions: list[Subscription]) -> int:
    async with world.worker():
        await world.plane.until(lambda: are_open(world, subscriptions))
        before = world.log.stats.fetched_bytes
        await publish(world, topic)
        await world.plane.until(lambda: all(has_all(world, s.id) for s in subscriptions))
        return world.log.stats.fetched_bytes - before


async def publish_before_start(
    world: World, topic: Topic, subscriptions: list[Subscription]
) -> int:
    await publish(world, topic)
    before = world.log.stats.fetched_bytes
    async with world.worker():
        await world.plane.until(lambda: all(has_all(world, s.id) for s in subscriptions))
        return world.log.stats.fetched_bytes - before


def are_open(world: World, subscriptions: list[Subscription]) -> bool:
    """Whether each has told of its place in both partitions."""
    told = Counter(subscription_id for subscription_id, _ in world.plane.statuses)
    return all(told[each.id] == 2 for each in subscriptions)


async def test_one_that_was_suspended_catches_up_and_the_others_read_nothing_again(
    world: World,
) -> None:
    for number in range(ROUNDS_MAX):
        with capture_logs() as logged:
            size, again, came = await read_by_one_that_catches_up(world, number)
        if Read(size, again, logged).owned_throughout:
            break
    assert again <= 1.25 * size, logged
    assert came == MESSAGES


async def read_by_one_that_catches_up(world: World, number: int) -> tuple[int, int, int]:
    """The bytes of a topic, those read when a subscription was resumed, and what came to it."""
    topic = await world.topic(f"shop.orders{number}", partitions=2)
    others = [await world.subscribe(topic, f"s{number}-{n}") for n in range(9)]
    late = await world.subscribe(topic, f"late{number}")
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
    came = world.endpoints.bodies(f"http://late{number}.test/")
    assert set(came) == {b"%d " % n + BODY for n in range(MESSAGES)}
    for each in (*others, late):
        world.plane.delete(each)
    return await size_of(world, topic), read_again, len(came)


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
