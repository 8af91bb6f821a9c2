"""Circuits that subscriptions share: who may try, and settings that change meanwhile."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from app.domain.catalogue.subscription import Subscription
from app.domain.circuit import CircuitBreaker, TimeUnit
from app.domain.delivery import Delivered, Outcome, Retry
from tests.fakes.worker import Attempt, World, delivered

SHARED = CircuitBreaker(
    errors_threshold=3,
    trip_timeout=300,
    trip_timeout_unit=TimeUnit.MILLISECONDS,
    circuit_name="orders",
)

Change = Callable[[World, Subscription], Subscription]


def _without(world: World, subscription: Subscription) -> Subscription:
    return world.plane.put(replace(subscription, circuit_breaker=None))


def _renamed(world: World, subscription: Subscription) -> Subscription:
    other = replace(SHARED, circuit_name="other")
    return world.plane.put(replace(subscription, circuit_breaker=other))


@pytest.mark.parametrize("change", [_without, _renamed, World.suspend])
async def test_who_leaves_a_circuit_with_its_one_message_in_the_air_lets_another_try(
    change: Change,
) -> None:
    world = World()
    topic, calm = await world.topic(partitions=1), await world.topic("shop.calm", partitions=1)
    staying = await world.subscribe(calm, "b")
    world.plane.put(replace(staying, circuit_breaker=SHARED))
    leaving = await world.subscribe(topic, "a", in_flight_max=1, message_backoff=timedelta(0))
    leaving = world.plane.put(replace(leaving, circuit_breaker=SHARED))

    def fails_at_first(_: Attempt) -> Outcome:
        tried = len(world.endpoints.attempts)
        return Retry(reason="no", status=503) if tried <= 3 else Delivered(status=200)

    world.endpoints.replies[leaving.endpoint] = fails_at_first
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, b"1")
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 3)
        world.endpoints.gate.clear()
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 4)
        change(world, leaving)
        await world.plane.until_applied()
        await world.publish(calm, b"2")
        world.endpoints.gate.set()
        await world.plane.until(lambda: delivered(world, staying.id) == 1)


async def test_messages_that_always_fail_leave_the_next_try_to_a_new_one() -> None:
    world = World()
    topic, calm = await world.topic(partitions=1), await world.topic("shop.calm", partitions=1)
    for name in ("a1", "a2", "a3", "a4", "a5"):
        failing = await world.subscribe(topic, name, message_backoff=timedelta(milliseconds=50))
        world.plane.put(replace(failing, circuit_breaker=SHARED))
        world.endpoints.replies[failing.endpoint] = lambda _: Retry(reason="no", status=503)
    well = await world.subscribe(calm, "b")
    world.plane.put(replace(well, circuit_breaker=SHARED))
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, b"1")
        await world.endpoints.until(lambda: len(world.endpoints.attempts) >= 8)
        await world.publish(calm, b"2", b"3", b"4")
        before = len(world.endpoints.attempts)
        await world.endpoints.until(lambda: len(world.endpoints.bodies(well.endpoint)) > 0)
        # One may be in flight, one may have its leave already, and one old message has its turn.
        tried = [each.endpoint for each in world.endpoints.attempts[before:]]
        assert tried.index(well.endpoint) <= 3
        await world.plane.until(lambda: delivered(world, well.id) == 3)
