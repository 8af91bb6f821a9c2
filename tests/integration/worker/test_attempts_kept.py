"""A whole worker that dies: how often messages were tried is known to the next one."""

from dataclasses import replace

import pytest

from app.domain.catalogue.subscription import Ordering, Subscription
from app.domain.commit import parse_progress
from tests.fakes.worker import World, until
from tests.integration.worker.batching import LATE, SOON, changed, failing, numbers, subscribed


@pytest.fixture
def world() -> World:
    world = World()
    failing(world)
    return world


def tried(world: World, subscription: Subscription) -> int:
    """Attempts that are committed, of all messages."""
    found = [
        parse_progress(subscription.id, commit.offset, commit.metadata)
        for commit in world.memory.commits.get(subscription.group, {}).values()
    ]
    return sum(count for each in found if each for _, count in each.attempts)


async def until_tried(world: World, subscription: Subscription, count: int) -> None:
    await until(world.memory.changed, lambda: tried(world, subscription) == count)


@pytest.mark.parametrize("ordering", Ordering)
async def test_after_a_kill_attempts_are_counted_on(world: World, ordering: Ordering) -> None:
    topic = await world.topic(partitions=1)
    made = await world.subscribe(topic, max_retries=2, message_backoff=LATE)
    known = world.plane.put(replace(made, ordering=ordering))
    await world.publish(topic, b"x", key=b"k")
    for name, count in (("w1", 1), ("w2", 2)):
        async with world.doomed_worker(name):
            await until_tried(world, known, count)
    async with world.worker("w3"):
        await world.plane.until(lambda: bool(world.plane.undelivered))
    assert [each.retry_count for each in world.endpoints.attempts] == [0, 1, 2]
    [discarded] = world.plane.undelivered
    assert (discarded.reason, discarded.attempts) == ("Maximum number of retries reached", 3)


async def test_after_a_kill_a_batch_is_tried_as_often_as_it_may(world: World) -> None:
    topic = await world.topic(partitions=1)
    made = await subscribed(world, topic, batch_size=3, max_retries=1, message_backoff=LATE)
    await world.publish(topic, *numbers(3))
    async with world.doomed_worker("w1"):
        await until_tried(world, made, 3)
    async with world.worker("w2"):
        await world.plane.until(lambda: len(world.plane.undelivered) == 3)
    assert [each.retry_count for each in world.endpoints.attempts] == [0, 1]


async def test_what_is_new_in_a_batch_is_tried_as_often_as_it_may(world: World) -> None:
    topic = await world.topic(partitions=1)
    made = await subscribed(world, topic, batch_size=2, max_retries=1, message_backoff=LATE)
    await world.publish(topic, *numbers(2))
    async with world.doomed_worker("w1"):
        await until_tried(world, made, 2)
    changed(world, made, batch_size=3)
    await world.publish(topic, *numbers(2, 3))
    async with world.doomed_worker("w2"):
        await until_tried(world, made, 3)
    async with world.worker("w3"):
        await world.plane.until(lambda: len(world.plane.undelivered) == 3)
    assert [each.retry_count for each in world.endpoints.attempts] == [0, 0, 1]
    assert {each.attempts for each in world.plane.undelivered} == {2}


async def test_after_an_orderly_stop_attempts_are_counted_on(world: World) -> None:
    topic = await world.topic(partitions=2)
    made = await world.subscribe(topic, message_backoff=LATE)
    world.endpoints.gate.clear()
    await world.publish(topic, b"1", b"2", b"3")
    async with world.worker("w1"):
        await world.endpoints.until(lambda: world.endpoints.in_flight == 3)
        world.endpoints.gate.set()
    assert tried(world, made) == 3


async def test_a_message_that_is_finished_leaves_no_attempts(world: World) -> None:
    topic = await world.topic(partitions=1)
    made = await world.subscribe(topic, max_retries=2, message_backoff=SOON)
    async with world.worker():
        await world.publish(topic, b"x")
        await world.plane.until(lambda: bool(world.plane.undelivered))
    [committed] = world.memory.commits[made.group].values()
    assert (committed.offset, tried(world, made)) == (1, 0)
