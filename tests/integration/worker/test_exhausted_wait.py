"""A whole worker on a log in memory: what is tried for long makes room for what is new."""

import time
from dataclasses import replace
from datetime import timedelta

import pytest

from app.domain.catalogue.filters import Filter, FilterType
from app.domain.catalogue.subscription import OnExhausted, Subscription
from app.domain.catalogue.topic import Topic
from app.domain.circuit import CircuitBreaker, CircuitState
from app.domain.commit import Progress
from app.domain.delivery import ROOM_NEEDED
from app.domain.message import Partition
from app.log.interface import Committed
from tests.fakes.worker import World, bad_ones_fail, delivered

ENDPOINT = "http://s.test/"
NEVER = timedelta(seconds=600)
LONG = timedelta(minutes=10)


@pytest.fixture
def world() -> World:
    world = World()
    world.endpoints.replies[ENDPOINT] = bad_ones_fail
    return world


async def subscribed(
    world: World,
    action: OnExhausted = OnExhausted.WAIT,
    *,
    wait: timedelta = LONG,
    message_ttl: timedelta = timedelta(hours=1),
) -> tuple[Topic, Subscription]:
    """With room for two retries, which come late."""
    topic = await world.topic(partitions=1)
    subscription = await world.subscribe(
        topic,
        on_exhausted=action,
        exhausted_wait_max=wait,
        message_ttl=message_ttl,
        in_flight_max=1,
        retry_buffer_max=2,
        message_backoff=NEVER,
    )
    return topic, subscription


async def tried_since(world: World, subscription: Subscription, ago: timedelta) -> None:
    """As if a worker that is gone had begun with its first message so long ago."""
    opened_ms = int((time.time() - ago.total_seconds()) * 1000)
    progress = Progress(
        subscription_id=subscription.id, offset=0, oldest_opened_ms=opened_ms, seek=None
    )
    place = {Partition(subscription.topic, 0): Committed(0, progress.metadata())}
    await world.log.commit({subscription.group: place})


def given_up(world: World) -> list[bytes]:
    return [each.body or b"" for each in world.plane.undelivered]


def waiting_retries(world: World, subscription: Subscription) -> int:
    load = world.plane.loads.get(subscription.id)
    return load.waiting_retries if load else 0


def circuit(world: World, subscription: Subscription) -> CircuitState | None:
    load = world.plane.loads.get(subscription.id)
    reading = load.output.circuit if load else None
    return reading.state if reading else None


async def test_what_was_tried_for_so_long_makes_room_for_what_waits(world: World) -> None:
    topic, subscription = await subscribed(world, wait=timedelta(seconds=1))
    await world.publish(topic, b"bad1", b"bad2", b"bad3", b"good")
    async with world.worker():
        await world.plane.until(lambda: delivered(world, subscription.id) == 1)
        await world.plane.until(lambda: len(world.plane.undelivered) == 2)
    assert given_up(world) == [b"bad1", b"bad2"]
    assert {(each.reason, each.status) for each in world.plane.undelivered} == {(ROOM_NEEDED, 500)}
    first, *_, last = world.endpoints.attempts
    assert last.at - first.at >= 0.95
    assert world.endpoints.bodies() == [b"bad1", b"bad2", b"bad3", b"good"]


async def test_with_run_it_makes_room_too(world: World) -> None:
    topic, subscription = await subscribed(world, OnExhausted.RUN)
    await tried_since(world, subscription, LONG)
    await world.publish(topic, b"bad1", b"bad2", b"good")
    async with world.worker():
        await world.plane.until(lambda: delivered(world, subscription.id) == 1)
        await world.plane.until(lambda: len(world.plane.undelivered) == 1)
    assert given_up(world) == [b"bad1"]


async def test_the_time_goes_on_over_a_restart(world: World) -> None:
    topic, subscription = await subscribed(world)
    await tried_since(world, subscription, LONG)
    await world.publish(topic, b"bad1", b"bad2", b"bad3", b"good")
    async with world.worker():
        await world.endpoints.until(lambda: b"bad3" in world.endpoints.bodies())
        await world.plane.until(lambda: len(world.plane.undelivered) == 1)
    # The second one has not been tried for so long.
    assert given_up(world) == [b"bad1"]
    assert b"good" not in world.endpoints.bodies()


async def test_nothing_is_given_up_before_anything_waits_for_its_room(world: World) -> None:
    topic, subscription = await subscribed(world)
    await tried_since(world, subscription, LONG)
    await world.publish(topic, b"bad1", b"bad2")
    async with world.worker():
        await world.plane.until(lambda: waiting_retries(world, subscription) == 2)
        assert given_up(world) == []
        await world.publish(topic, b"good")
        await world.plane.until(lambda: delivered(world, subscription.id) == 1)
        await world.plane.until(lambda: len(world.plane.undelivered) == 1)
    assert given_up(world) == [b"bad1"]


async def test_nothing_is_given_up_while_the_circuit_is_open(world: World) -> None:
    topic, subscription = await subscribed(world)
    breaker = CircuitBreaker(errors_threshold=2, trip_timeout=600)
    world.plane.put(replace(subscription, circuit_breaker=breaker))
    await tried_since(world, subscription, LONG)
    await world.publish(topic, b"bad1", b"bad2", b"good")
    async with world.worker():
        await world.plane.until(lambda: circuit(world, subscription) is CircuitState.OPEN)
        await world.plane.until(lambda: waiting_retries(world, subscription) == 2)
    assert given_up(world) == []
    assert world.endpoints.bodies() == [b"bad1", b"bad2"]


@pytest.mark.parametrize(("before", "after"), [(900, 7200), (7200, 900)])
async def test_another_time_to_live_makes_room_neither_at_once_nor_never(
    world: World, before: int, after: int
) -> None:
    topic, subscription = await subscribed(world, message_ttl=timedelta(seconds=before))
    await world.publish(topic, b"bad1", b"bad2", b"good")
    async with world.worker():
        await world.plane.until(lambda: waiting_retries(world, subscription) == 2)
        changed = replace(
            subscription.policy,
            message_ttl=timedelta(seconds=after),
            exhausted_wait_max=timedelta(seconds=1),
        )
        world.plane.put(replace(subscription, policy=changed))
        await world.plane.until(lambda: delivered(world, subscription.id) == 1)
    first, *_, last = world.endpoints.attempts
    assert last.at - first.at >= 0.95


async def test_what_is_filtered_out_takes_no_room(world: World) -> None:
    topic, subscription = await subscribed(world)
    even = Filter(type=FilterType.CEL, expression="text != 'odd'")
    world.plane.put(replace(subscription, filters=(even,)))
    await tried_since(world, subscription, LONG)
    await world.publish(topic, b"bad1", b"bad2", b"odd")
    async with world.worker():
        await world.plane.until(
            lambda: (
                any(each.filtered for each in world.plane.statuses.values())
                and waiting_retries(world, subscription) == 2
            )
        )
    assert given_up(world) == []
