"""A subscription that is moved to another place in its topic, whatever it is doing."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from app.domain.catalogue.seek import Seek
from app.domain.catalogue.subscription import State, Subscription
from app.domain.catalogue.topic import Topic
from app.domain.delivery import Outcome, Retry
from app.domain.message import Partition
from app.log.interface import Committed
from tests.fakes.worker import Attempt, World, delivered

FIRST = [b"0", b"1", b"2", b"3"]


@pytest.fixture
def world() -> World:
    return World()


def failing(_: Attempt) -> Outcome:
    return Retry(reason="failing", status=500)


def move(world: World, subscription: Subscription, *offsets: int) -> Subscription:
    current = world.plane.subscriptions[subscription.id]
    seek = Seek.after(current.seek, dict(enumerate(offsets)), {}, now_ms=1)
    return world.plane.put(replace(current, seek=seek))


def committed(world: World, subscription: Subscription, index: int = 0) -> int:
    return world.memory.commits[subscription.group][Partition(subscription.topic, index)].offset


async def moved_to(world: World, subscription: Subscription, offset: int) -> None:
    await world.plane.until(lambda: committed(world, subscription) == offset)


async def one_partition(world: World, **policy: Any) -> tuple[Topic, Subscription]:  # noqa: ANN401 - fields of a policy
    topic = await world.topic(partitions=1)
    return topic, await world.subscribe(topic, "s", endpoint="", **policy)


async def test_an_active_one_gets_again_what_comes_after_its_new_place(world: World) -> None:
    topic, subscription = await one_partition(world)
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *FIRST)
        await world.plane.until(lambda: delivered(world, subscription.id) == 4)
        move(world, subscription, 1)
        await world.plane.until(lambda: delivered(world, subscription.id) == 7)
        await world.publish(topic, b"4")
        await world.plane.until(lambda: delivered(world, subscription.id) == 8)
    assert sorted(world.endpoints.bodies()) == sorted([*FIRST, b"1", b"2", b"3", b"4"])
    assert committed(world, subscription) == 5


async def test_one_that_is_stuck_is_moved_ahead_and_goes_on_there(world: World) -> None:
    topic, subscription = await one_partition(world, message_backoff=timedelta(minutes=1))
    world.endpoints.replies[subscription.endpoint] = failing
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *FIRST)
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 4)
        move(world, subscription, 4)
        await moved_to(world, subscription, 4)
        del world.endpoints.replies[subscription.endpoint]
        await world.publish(topic, b"4")
        await world.plane.until(lambda: delivered(world, subscription.id) == 1)
    assert world.endpoints.bodies() == [*FIRST, b"4"]
    assert committed(world, subscription) == 5


async def test_only_the_one_that_is_moved_gets_anything_again(world: World) -> None:
    topic, subscription = await one_partition(world)
    other = await world.subscribe(topic, "other")
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *FIRST)
        await world.plane.until(lambda: delivered(world, other.id) == 4)
        move(world, subscription, 0)
        await world.plane.until(lambda: delivered(world, subscription.id) == 8)
    assert world.endpoints.bodies(other.endpoint) == FIRST


async def test_a_suspended_one_goes_on_at_its_new_place_when_it_is_resumed(world: World) -> None:
    topic, subscription = await one_partition(world)
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *FIRST)
        await world.plane.until(lambda: delivered(world, subscription.id) == 4)
        world.suspend(subscription)
        await world.plane.until_applied()
        moved = move(world, subscription, 2)
        await world.plane.until_applied()
        world.plane.put(replace(moved, state=State.ACTIVE))
        await world.plane.until(lambda: delivered(world, subscription.id) == 6)
    assert world.endpoints.bodies() == [*FIRST, b"2", b"3"]


async def test_one_without_a_worker_is_moved_for_the_next_one(world: World) -> None:
    topic, subscription = await one_partition(world)
    await world.publish(topic, *FIRST)
    move(world, subscription, 3)
    async with world.worker():
        await world.plane.until(lambda: delivered(world, subscription.id) == 1)
    assert world.endpoints.bodies() == [b"3"]


async def test_what_is_in_the_air_counts_and_does_not_move_it_back(world: World) -> None:
    topic, subscription = await one_partition(world, in_flight_max=1)
    world.endpoints.gate.clear()
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *FIRST)
        await world.endpoints.until(lambda: world.endpoints.in_flight == 1)
        move(world, subscription, 4)
        await world.plane.until_applied()
        await world.publish(topic, b"4")
        world.endpoints.gate.set()
        await world.plane.until(lambda: delivered(world, subscription.id) == 2)
    assert world.endpoints.bodies() == [b"0", b"4"]
    assert committed(world, subscription) == 5


async def test_a_worker_that_dies_before_it_hears_of_it_leaves_it_to_the_next(
    world: World,
) -> None:
    topic, subscription = await one_partition(world)
    async with world.doomed_worker("w1"):
        await world.plane.until_applied()
        await world.publish(topic, *FIRST)
        await moved_to(world, subscription, 4)
        world.plane.down = True
        move(world, subscription, 2)
    world.plane.down = False
    async with world.worker("w2"):
        await world.plane.until(lambda: delivered(world, subscription.id) == 6)
    assert world.endpoints.bodies() == [*FIRST, b"2", b"3"]


async def test_a_move_is_made_once_whatever_workers_come_and_go(world: World) -> None:
    topic, subscription = await one_partition(world)
    async with world.doomed_worker("w1"):
        await world.plane.until_applied()
        await world.publish(topic, *FIRST)
        await world.plane.until(lambda: delivered(world, subscription.id) == 4)
        move(world, subscription, 3)
        await world.plane.until(lambda: delivered(world, subscription.id) == 5)
    async with world.worker("w2"):
        await world.plane.until_applied()
        await world.publish(topic, b"4")
        await world.plane.until(lambda: delivered(world, subscription.id) == 6)
    assert world.endpoints.bodies() == [*FIRST, b"3", b"4"]


async def test_the_last_of_several_moves_counts(world: World) -> None:
    topic, subscription = await one_partition(world)
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *FIRST)
        await world.plane.until(lambda: delivered(world, subscription.id) == 4)
        world.suspend(subscription)
        for offset in (0, 4, 3):
            moved = move(world, subscription, offset)
        world.plane.put(replace(moved, state=State.ACTIVE))
        await world.plane.until(lambda: delivered(world, subscription.id) == 5)
    assert world.endpoints.bodies() == [*FIRST, b"3"]


async def test_every_partition_is_moved_to_a_place_of_its_own(world: World) -> None:
    topic = await world.topic(partitions=2)
    subscription = await world.subscribe(topic)
    async with world.worker():
        await world.plane.until_applied()
        for key in (b"a", b"b", b"c", b"d", b"e", b"f"):
            await world.publish(topic, key, key=key)
        await world.plane.until(lambda: delivered(world, subscription.id) == 6)
        ends = {
            p.index: b.end
            for p, b in (await world.log.bounds(await world.log.partitions(topic.name))).items()
        }
        move(world, subscription, 0, ends[1])
        await world.plane.until(lambda: delivered(world, subscription.id) == 6 + ends[0])
    assert 0 < ends[0] < 6
    assert [committed(world, subscription, index) for index in (0, 1)] == [ends[0], ends[1]]


async def test_a_tool_may_set_offsets_of_one_that_was_moved_before(world: World) -> None:
    topic, subscription = await one_partition(world)
    await world.publish(topic, *FIRST)
    move(world, subscription, 0)
    by_tool = {Partition(topic.name, 0): Committed(3)}
    await world.log.commit({subscription.group: by_tool})
    async with world.worker():
        await world.plane.until(lambda: delivered(world, subscription.id) == 1)
    assert world.endpoints.bodies() == [b"3"]


async def test_a_log_that_forgot_where_it_was_makes_it_begin_at_its_last_move(
    world: World,
) -> None:
    topic, subscription = await one_partition(world)
    await world.publish(topic, *FIRST)
    move(world, subscription, 2)
    await world.log.forget(subscription.group, [Partition(topic.name, 0)])
    async with world.worker():
        await world.plane.until(lambda: delivered(world, subscription.id) == 2)
    assert world.endpoints.bodies() == [b"2", b"3"]
