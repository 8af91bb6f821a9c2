"""A whole worker on a log in memory: messages that wait, and what happens when too many do."""

import time
from datetime import timedelta

import pytest

from app.domain.catalogue.subscription import OnExhausted, State, Subscription
from app.domain.delivery import BUFFER_FULL, Delivered, Outcome
from app.domain.message import NewRecord
from tests.fakes.worker import Attempt, World, bad_ones_fail, delivered

ENDPOINT = "http://s.test/"
NEVER = timedelta(seconds=600)
BAD = [b"bad1", b"bad2", b"bad3"]


@pytest.fixture
def world() -> World:
    world = World()
    world.endpoints.replies[ENDPOINT] = bad_ones_fail
    return world


def waiting_retries(world: World, subscription: Subscription) -> int:
    load = world.plane.loads.get(subscription.id)
    return load.waiting_retries if load else 0


async def exhausted(world: World, action: OnExhausted, **policy: object) -> Subscription:
    """A subscription with room for two retries, to which three bad messages and a good one came."""
    topic = await world.topic(partitions=1)
    settings = {"in_flight_max": 1, "retry_buffer_max": 2, "message_backoff": NEVER, **policy}
    subscription = await world.subscribe(topic, on_exhausted=action, **settings)  # type: ignore[arg-type]  # as given
    await world.publish(topic, *BAD, b"good")
    return subscription


async def test_nothing_new_is_sent_while_the_buffer_is_full(world: World) -> None:
    backoff = timedelta(milliseconds=300)
    await exhausted(world, OnExhausted.WAIT, message_backoff=backoff)
    async with world.worker():
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 3)
    first, second, third = world.endpoints.attempts[:3]
    assert (first.body, second.body, third.retry_count) == (b"bad1", b"bad2", 1)
    assert third.at - first.at >= 0.9 * backoff.total_seconds()


async def test_with_discard_the_message_without_room_is_discarded(world: World) -> None:
    subscription = await exhausted(world, OnExhausted.DISCARD)
    async with world.worker():
        await world.plane.until(lambda: len(world.plane.undelivered) == 1)
        await world.plane.until(lambda: delivered(world, subscription.id) == 1)
    [discarded] = world.plane.undelivered
    assert (discarded.body, discarded.reason, discarded.status) == (b"bad3", BUFFER_FULL, 500)
    assert world.endpoints.bodies() == [*BAD, b"good"]


async def test_with_discard_oldest_the_oldest_makes_room(world: World) -> None:
    subscription = await exhausted(world, OnExhausted.DISCARD_OLDEST)
    async with world.worker():
        await world.plane.until(lambda: len(world.plane.undelivered) == 1)
        await world.plane.until(lambda: delivered(world, subscription.id) == 1)
    [discarded] = world.plane.undelivered
    assert (discarded.body, discarded.reason, discarded.status) == (b"bad1", BUFFER_FULL, 500)
    assert world.endpoints.bodies() == [*BAD, b"good"]


async def test_with_abort_the_subscription_is_suspended_and_nothing_is_lost(world: World) -> None:
    subscription = await exhausted(world, OnExhausted.ABORT)
    async with world.worker():
        await world.plane.until(
            lambda: world.plane.subscriptions[subscription.id].state is State.SUSPENDED
        )
        await world.plane.until_applied()
        assert world.endpoints.bodies() == BAD
        stored = world.plane.subscriptions[subscription.id]
        world.endpoints.replies.clear()
        world.plane.put(stored.in_state(State.ACTIVE))
        await world.plane.until(lambda: delivered(world, subscription.id) == 4)
    assert stored.state_reason == BUFFER_FULL
    assert world.plane.undelivered == []


async def test_with_run_retries_do_not_wait_for_their_backoff(world: World) -> None:
    subscription = await exhausted(world, OnExhausted.RUN)

    def second_time_lucky(attempt: Attempt) -> Outcome:
        return Delivered(status=200) if attempt.retry_count else bad_ones_fail(attempt)

    world.endpoints.replies[ENDPOINT] = second_time_lucky
    async with world.worker():
        await world.plane.until(lambda: delivered(world, subscription.id) >= 2)
    assert world.endpoints.bodies()[:2] == [b"bad1", b"bad2"]
    assert world.endpoints.attempts[2].retry_count == 1


async def test_a_message_is_sent_after_its_delay_and_others_wait_beside_it(world: World) -> None:
    topic = await world.topic(partitions=1)
    delay = timedelta(seconds=1)
    subscription = await world.subscribe(topic, sending_delay=delay, in_flight_max=1)
    async with world.worker():
        await world.plane.until_applied()
        loop_started, started_ms = time.monotonic(), time.time_ns() // 1_000_000
        old, new, newer = [
            NewRecord(value=body, timestamp_ms=started_ms - age_ms)
            for body, age_ms in ((b"old", 10_000), (b"new", 0), (b"newer", 0))
        ]
        await world.log.append(topic.name, [new, newer, old])
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 1)
        assert world.endpoints.in_flight_peak == 1
        await world.plane.until(lambda: delivered(world, subscription.id) == 3)
    assert world.endpoints.bodies() == [b"old", b"new", b"newer"]
    assert world.endpoints.attempts[1].at - loop_started >= 0.95 * delay.total_seconds()


async def test_a_message_that_waits_for_its_delay_is_left_to_the_next_worker(world: World) -> None:
    topic = await world.topic(partitions=1)
    subscription = await world.subscribe(topic, sending_delay=timedelta(seconds=1))
    async with world.worker("w1"):
        await world.plane.until_applied()
        await world.publish(topic, b"x")
        # Unless its time is over by then: the report may be late.
        await world.plane.until(
            lambda: (
                waiting_retries(world, subscription) == 1 or delivered(world, subscription.id) == 1
            )
        )
    async with world.worker("w2"):
        await world.plane.until(lambda: delivered(world, subscription.id) == 1)
    assert world.endpoints.bodies() == [b"x"]


async def test_no_more_wait_for_their_delay_than_the_buffer_holds(world: World) -> None:
    topic = await world.topic(partitions=1)
    delay = timedelta(milliseconds=200)
    subscription = await world.subscribe(topic, sending_delay=delay, retry_buffer_max=2)
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *[b"%d" % number for number in range(7)])
        waiting = []
        while delivered(world, subscription.id) < 7:
            await world.plane.changed.wait(0.05)
            waiting.append(waiting_retries(world, subscription))
    assert max(waiting) == 2
