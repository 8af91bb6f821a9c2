"""A worker that keeps messages in order, on a log in memory."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.catalogue.subscription import Ordering, Subscription
from app.domain.catalogue.topic import Topic
from app.domain.delivery import Delivered, Discarded, Outcome, Retry
from tests.fakes.worker import Attempt, World, delivered

URL = "http://s.test/"
SOON = timedelta(milliseconds=2)
NEVER = timedelta(minutes=10)


async def subscribed(
    world: World, topic: Topic, ordering: Ordering, **policy: object
) -> Subscription:
    made = await world.subscribe(topic)
    changed = replace(made.policy, **policy)  # type: ignore[arg-type]  # any settings
    return world.plane.put(replace(made, ordering=ordering, policy=changed))


async def published(world: World, topic: Topic, *bodies: bytes) -> None:
    """Publish `key:number` under that key; `:number` without any."""
    for body in bodies:
        await world.publish(topic, body, key=body.partition(b":")[0] or None)


class Witness:
    """Answers at random, and remembers when each message was finished for the first time."""

    def __init__(self, world: World, dice: Random) -> None:
        self._world = world
        self._dice = dice
        self.finished: dict[bytes, int] = {}
        world.endpoints.replies[URL] = self._reply

    def _reply(self, attempt: Attempt) -> Outcome:
        cast = self._dice.random()
        if cast < 0.2:
            return Retry(reason="no", status=500)
        self.finished.setdefault(attempt.body, len(self._world.endpoints.attempts))
        return Discarded(reason="bad", status=400) if cast < 0.25 else Delivered(status=200)

    def too_early(self, lane: Sequence[bytes]) -> list[bytes]:
        """What of the lane was begun before all that comes before it was finished."""
        never = len(self._world.endpoints.attempts) + 1
        return [
            attempt.body
            for index, attempt in enumerate(self._world.endpoints.attempts)
            if attempt.body in lane
            for before in lane[: lane.index(attempt.body)]
            if self.finished.get(before, never) > index
        ]


def lanes(keys: int, messages: int) -> list[list[bytes]]:
    return [[b"k%d:%d" % (key, number) for number in range(messages)] for key in range(keys)]


async def lived_through_a_kill(dice: Random, ordering: Ordering) -> None:
    world = World()
    topic = await world.topic(partitions=1 if ordering is Ordering.PARTITION else 3)
    await subscribed(world, topic, ordering, message_backoff=SOON)
    every = lanes(keys=6, messages=8)
    witness = Witness(world, dice)
    messages = [lane[number] for number in range(8) for lane in every]
    async with world.doomed_worker():
        await world.plane.until_applied()
        await published(world, topic, *messages)
        enough = dice.randrange(1, len(messages))
        await world.endpoints.until(lambda: len(witness.finished) >= enough)
    async with world.worker("w2"):
        await world.endpoints.until(lambda: len(witness.finished) == len(messages))
    in_order = [messages] if ordering is Ordering.PARTITION else every
    assert [witness.too_early(lane) for lane in in_order] == [[] for _ in in_order]


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(min_value=0))
def test_keys_stay_in_order_whatever_fails_and_whoever_is_killed(seed: int) -> None:
    asyncio.run(lived_through_a_kill(Random(seed), Ordering.KEY))


@settings(max_examples=3, deadline=None)
@given(seed=st.integers(min_value=0))
def test_partitions_stay_in_order_whatever_fails_and_whoever_is_killed(seed: int) -> None:
    asyncio.run(lived_through_a_kill(Random(seed), Ordering.PARTITION))


@pytest.fixture
def world() -> World:
    return World()


def fails_for(world: World, *prefixes: bytes) -> None:
    world.endpoints.replies[URL] = lambda attempt: (
        Retry(reason="no", status=500)
        if attempt.body.startswith(prefixes)
        else Delivered(status=200)
    )


async def test_a_failing_key_waits_and_the_others_flow(world: World) -> None:
    topic = await world.topic(partitions=1)
    subscription = await subscribed(world, topic, Ordering.KEY, message_backoff=NEVER)
    fails_for(world, b"bad:")
    async with world.worker():
        await world.plane.until_applied()
        await published(world, topic, b"bad:0", b"bad:1", b"good:0", b":0", b"bad:2", b"good:1")
        await world.plane.until(lambda: delivered(world, subscription.id) == 3)
    assert [body for body in world.endpoints.bodies() if body.startswith(b"bad")] == [b"bad:0"]


async def test_messages_without_a_key_are_free(world: World) -> None:
    topic = await world.topic(partitions=1)
    await subscribed(world, topic, Ordering.KEY)
    world.endpoints.gate.clear()
    async with world.worker():
        await world.plane.until_applied()
        await published(world, topic, b":0", b":1", b":2", b"k:0", b"k:1")
        await world.endpoints.until(lambda: world.endpoints.in_flight == 4)
        world.endpoints.gate.set()
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 5)
    assert world.endpoints.in_flight_peak == 4


async def test_a_partition_has_one_message_in_the_air_and_others_flow(world: World) -> None:
    topic = await world.topic(partitions=4)
    await subscribed(world, topic, Ordering.PARTITION)
    world.endpoints.gate.clear()
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *[b"%d" % number for number in range(100)])
        await world.endpoints.until(lambda: world.endpoints.in_flight == 4)
        world.endpoints.gate.set()
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 100)
    assert world.endpoints.in_flight_peak == 4


async def test_a_partition_with_too_many_failing_keys_is_not_read_on(world: World) -> None:
    topic = await world.topic(partitions=1)
    subscription = await subscribed(
        world,
        topic,
        Ordering.KEY,
        message_backoff=NEVER,
        parked_keys_max=2,
        in_flight_max=1,
    )
    fails_for(world, b"bad")
    other = await world.subscribe(topic, "other")
    async with world.worker():
        await world.plane.until_applied()
        bad = [b"bad%d:0" % number for number in range(6)]
        await published(world, topic, *bad, b"good:0")
        await world.plane.until(lambda: delivered(world, other.id) == 7)
        assert world.endpoints.bodies(URL) == bad[:3]
        world.plane.put(
            replace(
                subscription,
                policy=replace(subscription.policy, parked_keys_max=100),
            )
        )
        await world.plane.until(lambda: delivered(world, subscription.id) == 1)
    assert world.endpoints.bodies(URL) == [*bad, b"good:0"]


async def test_a_partition_goes_on_when_no_order_is_asked_for_any_more(world: World) -> None:
    topic = await world.topic(partitions=1)
    subscription = await subscribed(world, topic, Ordering.PARTITION, message_backoff=NEVER)
    fails_for(world, b"0")
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, b"0", b"1", b"2")
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 1)
        world.plane.put(replace(subscription, ordering=Ordering.NONE))
        await world.plane.until(lambda: delivered(world, subscription.id) == 2)


async def test_what_waits_behind_others_is_bounded_and_none_of_it_is_lost(world: World) -> None:
    topic = await world.topic(partitions=1)
    subscription = await subscribed(world, topic, Ordering.KEY, retry_buffer_max=5)
    hot = [b"hot:%d" % number for number in range(50)]
    async with world.worker():
        await world.plane.until_applied()
        await published(world, topic, *hot)
        await world.plane.until(lambda: delivered(world, subscription.id) == 50)
    assert world.endpoints.bodies() == hot


async def test_messages_that_wait_are_handed_over_with_their_partition(world: World) -> None:
    topic = await world.topic(partitions=1)
    subscription = await subscribed(world, topic, Ordering.KEY, message_backoff=NEVER)
    fails_for(world, b"k:")
    messages = [b"k:%d" % number for number in range(5)]
    async with world.worker():
        await world.plane.until_applied()
        await published(world, topic, *messages, b"other:0")
        await world.plane.until(lambda: delivered(world, subscription.id) == 1)
        world.endpoints.replies.clear()
    async with world.worker("w2"):
        await world.plane.until(lambda: delivered(world, subscription.id) == 6)
    assert [body for body in world.endpoints.bodies() if body != b"other:0"][1:] == messages


async def test_messages_that_waited_when_a_subscription_was_suspended_take_up_no_room(
    world: World,
) -> None:
    topic = await world.topic(partitions=1)
    subscription = await subscribed(
        world, topic, Ordering.KEY, message_backoff=NEVER, retry_buffer_max=3
    )
    fails_for(world, b"k:")
    messages = [b"k:%d" % number for number in range(6)]
    async with world.worker():
        await world.plane.until_applied()
        await published(world, topic, *messages)
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 1)
        suspended = world.suspend(subscription)
        await world.plane.until_applied()
        world.endpoints.replies.clear()
        world.resume(suspended)
        await world.plane.until(lambda: delivered(world, subscription.id) == 6)
    assert world.endpoints.bodies() == [messages[0], *messages]


async def test_messages_that_wait_go_on_without_order_when_none_is_asked_for_any_more(
    world: World,
) -> None:
    topic = await world.topic(partitions=1)
    subscription = await subscribed(world, topic, Ordering.KEY, message_backoff=NEVER)
    fails_for(world, b"k:0")
    async with world.worker():
        await world.plane.until_applied()
        await published(world, topic, *[b"k:%d" % number for number in range(5)], b"other:0")
        await world.plane.until(lambda: delivered(world, subscription.id) == 1)
        world.plane.put(replace(subscription, ordering=Ordering.NONE))
        await world.plane.until(lambda: delivered(world, subscription.id) == 5)
