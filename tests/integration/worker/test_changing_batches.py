"""What becomes of open batches when workers come and go, and settings change."""

import asyncio
from dataclasses import replace

import pytest

from app.domain.catalogue.batching import BatchFormat, DeliveryType
from app.domain.catalogue.subscription import Ordering
from app.domain.delivery import (
    Retry,
)
from tests.fakes.worker import PATIENCE_S, World, delivered
from tests.integration.worker.batching import (
    EVEN,
    LATE,
    SOON,
    URL,
    batches,
    changed,
    collected,
    committed,
    every,
    filtered,
    first_fails,
    numbers,
    subscribed,
)


@pytest.fixture
def world() -> World:
    return World()


async def test_a_worker_that_stops_neither_waits_for_an_open_batch_nor_loses_or_repeats_it(
    world: World,
) -> None:
    topic = await world.topic(partitions=1)
    subscription = await subscribed(world, topic, batch_size=3)
    async with asyncio.timeout(PATIENCE_S):
        async with world.worker():
            await world.plane.until_applied()
            await collected(world, topic, *numbers(5))
            await world.plane.until(lambda: delivered(world, subscription.id) == 3)
    assert committed(world, subscription) == 3
    async with world.worker("w2"):
        await world.publish(topic, b"5")
        await world.plane.until(lambda: delivered(world, subscription.id) == 6)
    assert batches(world) == [[0, 1, 2], [3, 4, 5]]


async def test_a_batch_that_waits_for_a_retry_is_the_next_workers_after_an_orderly_stop(
    world: World,
) -> None:
    topic = await world.topic(partitions=1)
    subscription = await subscribed(world, topic, batch_size=3, message_backoff=LATE)
    first_fails(world, Retry(reason="no", status=500))
    async with asyncio.timeout(PATIENCE_S):
        async with world.worker():
            await world.plane.until_applied()
            await collected(world, topic, *numbers(3))
            await world.endpoints.until(lambda: bool(batches(world)))
            await world.endpoints.until(lambda: world.endpoints.in_flight == 0)
    async with world.worker("w2"):
        await world.plane.until(lambda: delivered(world, subscription.id) == 3)
    first, second = [each for each in world.endpoints.attempts if each.endpoint == URL]
    assert (first.body, first.message_id) == (second.body, second.message_id)


async def test_no_commit_passes_an_open_batch_whatever_is_filtered_out_behind_it(
    world: World,
) -> None:
    topic = await world.topic(partitions=1)
    subscription = await subscribed(world, topic, batch_size=3, filters=EVEN)
    async with world.doomed_worker():
        await world.plane.until_applied()
        await collected(world, topic, *numbers(4))
        await world.plane.until(lambda: filtered(world, subscription) == 2)
        assert committed(world, subscription) == 0
    async with world.worker("w2"):
        await world.publish(topic, b"4")
        await world.plane.until(lambda: delivered(world, subscription.id) == 3)
    assert batches(world) == [[0, 2, 4]]
    assert filtered(world, subscription) == 2


async def test_a_batch_goes_before_what_was_filtered_out_cannot_be_committed_any_more(
    world: World,
) -> None:
    topic = await world.topic(partitions=1)
    subscription = await subscribed(
        world, topic, batch_size=10_000, batch_volume=1_000_000, filters=EVEN
    )
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbers(6_000))
        await world.endpoints.until(lambda: bool(world.endpoints.attempts))
        await world.plane.until(lambda: delivered(world, subscription.id) > 0)
    assert len(batches(world)[0]) > 100


async def test_a_killed_workers_batch_is_sent_again_under_the_same_id(world: World) -> None:
    topic = await world.topic(partitions=1)
    subscription = await subscribed(world, topic, batch_size=3)
    world.endpoints.gate.clear()
    async with world.doomed_worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbers(3))
        await world.endpoints.until(lambda: world.endpoints.in_flight == 1)
    world.endpoints.gate.set()
    async with world.worker("w2"):
        await world.plane.until(lambda: delivered(world, subscription.id) == 3)
    first, second = world.endpoints.attempts
    assert (first.message_id, first.body) == (second.message_id, second.body)


async def test_a_suspended_subscription_collects_anew_when_it_is_resumed(world: World) -> None:
    topic = await world.topic(partitions=1)
    subscription = await subscribed(world, topic, batch_size=3)
    async with world.worker():
        await world.plane.until_applied()
        await collected(world, topic, *numbers(2))
        suspended = world.suspend(subscription)
        await world.plane.until_applied()
        await collected(world, topic, b"2")
        assert batches(world) == []
        world.resume(suspended)
        await world.plane.until(lambda: delivered(world, subscription.id) == 3)
    assert batches(world) == [[0, 1, 2]]


async def test_open_batches_change_hands_with_their_partitions(world: World) -> None:
    topic = await world.topic(partitions=4)
    subscription = await subscribed(world, topic, batch_size=100)
    async with world.worker():
        await world.plane.until_applied()
        await collected(world, topic, *numbers(40))
        async with world.worker("w2"):
            await world.plane.until_applied()
            await collected(world, topic, *numbers(40, 80))
            changed(world, subscription, batch_time=SOON)
            await world.plane.until(lambda: delivered(world, subscription.id) == 80)
    assert sorted(every(world)) == [*range(80)]


async def test_what_was_sent_one_by_one_and_failed_goes_in_batches_when_they_are_asked_for(
    world: World,
) -> None:
    topic = await world.topic(partitions=1)
    subscription = await world.subscribe(topic, batch_size=4, message_backoff=LATE)
    first_fails(world, Retry(reason="no", status=500), times=4)
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbers(4))
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 4)
        world.plane.put(
            replace(subscription, delivery_type=DeliveryType.BATCH, batch_format=BatchFormat.PLAIN)
        )
        await world.plane.until(lambda: delivered(world, subscription.id) == 4)
    assert batches(world) == [0, 1, 2, 3, [0, 1, 2, 3]]


async def test_what_is_in_the_air_when_batches_are_asked_for_is_not_sent_again(
    world: World,
) -> None:
    topic = await world.topic(partitions=1)
    subscription = await world.subscribe(topic, in_flight_max=2, batch_size=2)
    world.endpoints.gate.clear()
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbers(4))
        await world.endpoints.until(lambda: world.endpoints.in_flight == 2)
        world.plane.put(
            replace(subscription, delivery_type=DeliveryType.BATCH, batch_format=BatchFormat.PLAIN)
        )
        await world.plane.until_applied()
        assert len(world.endpoints.attempts) == 2
        world.endpoints.gate.set()
        await world.plane.until(lambda: delivered(world, subscription.id) == 4)
    assert batches(world) == [0, 1, [2, 3]]


@pytest.mark.parametrize("fails", [False, True])
async def test_what_is_collected_or_waits_for_a_retry_goes_one_by_one_when_no_batches_are_wanted(
    world: World,
    fails: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    topic = await world.topic(partitions=1)
    subscription = await subscribed(world, topic, batch_size=3, message_backoff=LATE)
    async with world.worker():
        await world.plane.until_applied()
        if fails:
            first_fails(world, Retry(reason="no", status=500))
        await collected(world, topic, *numbers(3 if fails else 2))
        world.plane.put(replace(subscription, delivery_type=DeliveryType.SERIAL))
        await world.plane.until(lambda: delivered(world, subscription.id) == 2 + fails)
    assert batches(world) == ([[0, 1, 2], 0, 1, 2] if fails else [0, 1])


async def test_an_open_batch_keeps_to_new_sizes(world: World) -> None:
    topic = await world.topic(partitions=1)
    subscription = await subscribed(world, topic, batch_size=100)
    async with world.worker():
        await world.plane.until_applied()
        await collected(world, topic, *numbers(10))
        changed(world, subscription, batch_size=4)
        await collected(world, topic, *numbers(10, 12))
        await world.plane.until(lambda: delivered(world, subscription.id) == 12)
    assert batches(world) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


async def test_other_settings_leave_an_open_batch_alone(world: World) -> None:
    topic = await world.topic(partitions=1)
    subscription = await subscribed(world, topic, batch_size=3)
    async with world.worker():
        await world.plane.until_applied()
        await collected(world, topic, *numbers(2))
        changed(world, subscription, rate=1_000)
        await world.plane.until_applied()
        await world.publish(topic, b"2")
        await world.plane.until(lambda: delivered(world, subscription.id) == 3)
    assert batches(world) == [[0, 1, 2]]


async def test_an_ordering_that_batches_do_not_heed_leaves_an_open_batch_alone(
    world: World,
) -> None:
    topic = await world.topic(partitions=1)
    subscription = await subscribed(world, topic, batch_size=3)
    async with world.worker():
        await world.plane.until_applied()
        await collected(world, topic, *numbers(2))
        world.plane.put(replace(subscription, ordering=Ordering.KEY))
        await world.plane.until_applied()
        await world.publish(topic, b"2")
        await world.endpoints.until(lambda: bool(every(world)))
    assert batches(world) == [[0, 1, 2]]


async def test_deleting_a_subscription_forgets_its_open_batch(world: World) -> None:
    topic = await world.topic(partitions=1)
    subscription = await subscribed(world, topic)
    async with world.worker():
        await world.plane.until_applied()
        await collected(world, topic, *numbers(2))
        world.plane.delete(subscription)
        again = await subscribed(world, topic, batch_time=SOON)
        await world.plane.until_applied()
        await world.publish(topic, b"2")
        await world.plane.until(lambda: delivered(world, again.id) == 1)
    assert batches(world) == [[2]]


async def test_a_backlog_goes_in_full_batches_and_holds_nobody_up(world: World) -> None:
    topic = await world.topic(partitions=2)
    subscription = await subscribed(world, topic, batch_size=100, batch_volume=1_000_000)
    await world.publish(topic, *numbers(20_000))
    async with world.worker():
        await world.plane.until(lambda: delivered(world, subscription.id) >= 19_800)
    assert {len(batch) for batch in batches(world)} == {100}
