"""Batches with messages of several partitions, which may go to other workers meanwhile."""

from collections import Counter

import orjson
import pytest

from app.domain.delivery import Delivered, Discarded, Outcome, Retry
from tests.fakes.worker import Attempt, World, delivered
from tests.integration.worker.batching import (
    LATE,
    SOON,
    URL,
    batches,
    collected,
    committed,
    every,
    numbers,
    subscribed,
)


@pytest.fixture
def world() -> World:
    return World()


async def test_a_batch_fills_from_all_partitions(world: World) -> None:
    topic = await world.topic(partitions=4)
    subscription = await subscribed(world, topic, batch_size=8)
    async with world.worker():
        await world.plane.until_applied()
        await collected(world, topic, *numbers(4))
        await collected(world, topic, *numbers(4, 8))
        await world.plane.until(lambda: delivered(world, subscription.id) == 8)
    assert [sorted(batch) for batch in batches(world)] == [[*range(8)]]
    assert [committed(world, subscription, index) for index in range(4)] == [2, 2, 2, 2]


async def test_partitions_with_a_backlog_have_batches_of_their_own_in_the_air(
    world: World,
) -> None:
    topic = await world.topic(partitions=4)
    subscription = await subscribed(world, topic, batch_size=5)
    world.endpoints.gate.clear()
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbers(40))
        await world.endpoints.until(lambda: world.endpoints.in_flight == 4)
        world.endpoints.gate.set()
        await world.plane.until(lambda: delivered(world, subscription.id) == 40)
    assert {len(batch) for batch in batches(world)} == {5}
    assert sorted(every(world)) == [*range(40)]


async def test_each_message_of_a_discarded_batch_is_recorded_at_its_own_place(
    world: World,
) -> None:
    topic = await world.topic(partitions=2)
    subscription = await subscribed(world, topic, batch_size=2)
    world.endpoints.replies[URL] = lambda _: Discarded(reason="bad", status=400)
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbers(2))
        await world.plane.until(lambda: len(world.plane.undelivered) == 2)
    assert len(batches(world)) == 1
    places = {(each.partition, each.offset) for each in world.plane.undelivered}
    assert places == {(0, 0), (1, 0)}
    assert [committed(world, subscription, index) for index in (0, 1)] == [1, 1]


async def test_a_batch_that_waits_goes_on_without_a_partition_that_another_worker_gets(
    world: World,
) -> None:
    topic = await world.topic(partitions=2)
    subscription = await subscribed(world, topic, batch_size=2, message_backoff=SOON)

    def reply(attempt: Attempt) -> Outcome:
        together = sorted(orjson.loads(attempt.body)) == [0, 1]
        return Retry(reason="no", status=500) if together else Delivered(status=200)

    world.endpoints.replies[URL] = reply
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbers(2))
        await world.endpoints.until(lambda: len(world.endpoints.attempts) > 1)
        async with world.worker("w2"):
            await world.endpoints.until(lambda: any(len(each) == 1 for each in batches(world)))
            [kept] = next(each for each in batches(world) if len(each) == 1)
            # Who has the other partition reads its message again, and this makes its batch full.
            await world.publish(topic, *numbers(2, 4))
            await world.plane.until(lambda: delivered(world, subscription.id) == 3)
    taken = [each for each in batches(world) if sorted(each) != [0, 1]]
    assert sorted(taken) == sorted([[kept], [1 - kept, 3 - kept]])
    alone = next(each for each in world.endpoints.attempts if each.body == b"[%d]" % kept)
    assert alone.retry_count > 0
    assert alone.message_id != world.endpoints.attempts[0].message_id


async def test_a_batch_in_the_air_is_finished_by_the_worker_that_a_partition_leaves(
    world: World,
) -> None:
    topic = await world.topic(partitions=2)
    subscription = await subscribed(world, topic, batch_size=2, message_backoff=LATE)
    world.endpoints.gate.clear()
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbers(2))
        await world.endpoints.until(lambda: world.endpoints.in_flight == 1)
        async with world.worker("w2"):
            world.endpoints.gate.set()
            await world.plane.until_applied()
            await world.publish(topic, *numbers(2, 6))
            await world.plane.until(lambda: delivered(world, subscription.id) == 6)
    assert sorted(batches(world)[0]) == [0, 1]
    assert Counter(every(world)) == Counter(range(6))
