"""A worker that polls, and one that prefetches, on a log in memory."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from app.domain.catalogue.batching import DeliveryType
from app.domain.catalogue.fetch import FetchMode, FetchPolicy
from app.domain.catalogue.subscription import Ordering, Subscription
from app.domain.catalogue.topic import Topic
from app.domain.delivery import Delivered, Outcome, Retry
from tests.fakes.worker import Attempt, World, delivered

URL = "http://s.test/"
PERIOD = timedelta(milliseconds=100)
NEVER = timedelta(minutes=10)
HOUR = timedelta(hours=1)


def polling(size: int, period: timedelta = PERIOD) -> FetchPolicy:
    return FetchPolicy(mode=FetchMode.POLLING, poll_size=size, polling_time=period)


async def subscribed(
    world: World, topic: Topic, fetch: FetchPolicy, *, backoff: timedelta = NEVER
) -> Subscription:
    made = await world.subscribe(topic, message_backoff=backoff)
    return world.plane.put(replace(made, fetch=fetch))


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def too_early(world: World, size: int, *, began: float) -> list[bytes]:
    """What was sent before its poll may have been: `size` with each, the first after `began`."""
    return [
        attempt.body
        for number, attempt in enumerate(world.endpoints.attempts)
        if attempt.at < began + number // size * PERIOD.total_seconds()
    ]


@pytest.fixture
def world() -> World:
    return World()


async def test_a_poll_takes_so_many_messages_and_the_next_waits_for_its_time(world: World) -> None:
    topic = await world.topic(partitions=3)
    subscription = await subscribed(world, topic, polling(4))
    async with world.worker():
        await world.plane.until_applied()
        began = asyncio.get_running_loop().time()
        await world.publish(topic, *numbered(14))
        await world.plane.until(lambda: delivered(world, subscription.id) == 14)
    assert too_early(world, 4, began=began) == []
    assert sorted(world.endpoints.bodies()) == sorted(numbered(14))


async def test_a_backlog_of_many_partitions_is_polled_too(world: World) -> None:
    topic = await world.topic(partitions=12)
    subscription = await subscribed(world, topic, polling(40))
    await world.publish(topic, *numbered(120))
    began = asyncio.get_running_loop().time()
    async with world.worker():
        await world.plane.until(lambda: delivered(world, subscription.id) == 120)
    assert too_early(world, 40, began=began) == []


async def test_a_message_that_comes_between_two_polls_waits(world: World) -> None:
    topic = await world.topic()
    subscription = await subscribed(world, topic, polling(10, HOUR))
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, b"polled")
        await world.plane.until(lambda: delivered(world, subscription.id) == 1)
        await world.publish(topic, b"late")
        await three_periods(world)
    assert world.endpoints.bodies() == [b"polled"]


async def test_polls_do_not_overlap(world: World) -> None:
    topic = await world.topic(partitions=4)
    await subscribed(world, topic, polling(2))
    world.endpoints.gate.clear()
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbered(8))
        await world.endpoints.until(lambda: world.endpoints.in_flight == 2)
        await three_periods(world)
        assert len(world.endpoints.attempts) == 2
        world.endpoints.gate.set()
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 8)
    assert world.endpoints.in_flight_peak == 2


async def three_periods(world: World) -> None:
    await passed(world, 3 * PERIOD)


async def passed(world: World, time: timedelta) -> None:
    loop = asyncio.get_running_loop()
    due = loop.time() + time.total_seconds()
    await world.plane.until(lambda: loop.time() > due)


async def test_a_poll_is_sent_at_once_whatever_ended_the_last_one(world: World) -> None:
    topic = await world.topic(partitions=1)
    # Far longer than a machine stands still between two of a poll.
    period = timedelta(seconds=1)
    await subscribed(world, topic, polling(4, period))
    world.endpoints.gate.clear()
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbered(8))
        await world.endpoints.until(lambda: world.endpoints.in_flight == 4)
        await passed(world, 1.1 * period)
        gate = world.endpoints.gate
        world.endpoints.gate = asyncio.Event()
        gate.set()
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 8)
        await world.endpoints.until(lambda: world.endpoints.in_flight == 4)
        world.endpoints.gate.set()
    fifth, *_, eighth = (attempt.at for attempt in world.endpoints.attempts[4:])
    assert eighth - fifth < period.total_seconds()


async def test_messages_that_wait_for_a_retry_hold_up_no_poll(world: World) -> None:
    topic = await world.topic(partitions=1)
    subscription = await subscribed(world, topic, polling(2))
    world.endpoints.replies[URL] = lambda attempt: (
        Retry(reason="no", status=500) if attempt.body == b"bad" else Delivered(status=200)
    )
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *[b"bad"] * 5, b"good")
        await world.plane.until(lambda: delivered(world, subscription.id) == 1)
    assert len(world.endpoints.attempts) == 6


async def test_a_retry_waits_for_no_poll(world: World) -> None:
    topic = await world.topic(partitions=1)
    soon = timedelta(milliseconds=5)
    subscription = await subscribed(world, topic, polling(1, HOUR), backoff=soon)
    answers = iter([Retry(reason="no", status=500)] * 3)
    world.endpoints.replies[URL] = lambda _: next(answers, Delivered(status=200))
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, b"polled", b"not polled")
        await world.plane.until(lambda: delivered(world, subscription.id) == 1)
    assert world.endpoints.bodies() == [b"polled"] * 4


async def test_a_retry_that_hangs_holds_up_no_poll(world: World) -> None:
    topic = await world.topic(partitions=1)
    await subscribed(world, topic, polling(1), backoff=timedelta(milliseconds=1))

    def reply(_: Attempt) -> Outcome:
        world.endpoints.gate.clear()
        return Retry(reason="no", status=500)

    world.endpoints.replies[URL] = reply
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, b"fails, then hangs", b"next")
        await world.endpoints.until(lambda: b"next" in world.endpoints.bodies())
        del world.endpoints.replies[URL]
        world.endpoints.gate.set()


@pytest.mark.parametrize("ordering", [Ordering.KEY, Ordering.PARTITION])
async def test_what_is_polled_stays_in_order(world: World, ordering: Ordering) -> None:
    topic = await world.topic(partitions=2)
    made = await subscribed(world, topic, polling(5), backoff=timedelta(milliseconds=2))
    world.plane.put(replace(made, ordering=ordering))
    world.endpoints.replies[URL] = lambda attempt: (
        Retry(reason="no", status=500)
        if attempt.retry_count == 0 and attempt.body.endswith(b"3")
        else Delivered(status=200)
    )
    keys = (b"a", b"b", b"c")
    async with world.worker():
        await world.plane.until_applied()
        for number in range(6):
            for key in keys:
                await world.publish(topic, b"%b%d" % (key, number), key=key)
        await world.plane.until(lambda: delivered(world, made.id) == 18)
    firsts = [each.body for each in world.endpoints.attempts if each.retry_count == 0]
    for key in keys:
        lane = [body for body in firsts if body.startswith(key)]
        assert lane == sorted(lane)


async def test_a_failing_partition_holds_up_no_other(world: World) -> None:
    topic = await world.topic(partitions=2)
    made = await subscribed(world, topic, polling(3))
    world.plane.put(replace(made, ordering=Ordering.PARTITION))
    failing: list[bytes] = []

    def reply(attempt: Attempt) -> Outcome:
        failing[:] = failing or [attempt.body]
        bad = attempt.body in failing
        return Retry(reason="no", status=500) if bad else Delivered(status=200)

    world.endpoints.replies[URL] = reply
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbered(40))
        await world.plane.until(lambda: delivered(world, made.id) >= 10)


async def test_what_was_polled_by_one_that_was_killed_is_delivered_by_the_next(
    world: World,
) -> None:
    topic = await world.topic(partitions=2)
    subscription = await subscribed(world, topic, polling(3))
    async with world.doomed_worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbered(10))
        await world.endpoints.until(lambda: len(world.endpoints.attempts) >= 4)
    async with world.worker("w2"):
        await world.plane.until(lambda: delivered(world, subscription.id) == 10)
    assert set(world.endpoints.bodies()) == set(numbered(10))


async def test_the_mode_is_changed_while_messages_wait(world: World) -> None:
    topic = await world.topic()
    subscription = await subscribed(world, topic, polling(2, HOUR))
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbered(9))
        await world.plane.until(lambda: delivered(world, subscription.id) == 2)
        world.plane.put(replace(subscription, fetch=FetchPolicy()))
        await world.plane.until(lambda: delivered(world, subscription.id) == 9)
        world.plane.put(replace(subscription, fetch=polling(2, HOUR)))
        await world.plane.until_applied()
        await world.publish(topic, *numbered(9))
        await world.plane.until(lambda: delivered(world, subscription.id) == 11)
        world.plane.put(replace(subscription, fetch=polling(3)))
        await world.plane.until(lambda: delivered(world, subscription.id) == 18)


async def test_one_that_is_suspended_and_resumed_polls_on(world: World) -> None:
    topic = await world.topic()
    subscription = await subscribed(world, topic, polling(2))
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbered(6))
        await world.plane.until(lambda: delivered(world, subscription.id) >= 2)
        suspended = world.suspend(subscription)
        await world.plane.until_applied()
        world.resume(suspended)
        await world.plane.until(lambda: delivered(world, subscription.id) == 6)
    assert sorted(world.endpoints.bodies()) == numbered(6)


async def test_prefetching_takes_no_notice_of_the_frequency(world: World) -> None:
    topic = await world.topic()
    slow = FetchPolicy(frequency=timedelta(seconds=60), polling_time=HOUR)
    subscription = await subscribed(world, topic, slow)
    async with world.worker():
        await world.plane.until_applied()
        for number in range(5):
            await world.publish(topic, b"%d" % number)
            await world.endpoints.until(lambda: len(world.endpoints.attempts) > number)  # noqa: B023 - it is waited for
        await world.plane.until(lambda: delivered(world, subscription.id) == 5)


async def test_a_slow_key_has_so_many_messages_ahead_that_others_wait(world: World) -> None:
    topic = await world.topic(partitions=1)
    made = await subscribed(world, topic, FetchPolicy(fetch_size=2))
    world.plane.put(replace(made, ordering=Ordering.KEY))
    world.endpoints.gate.clear()
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbered(6), key=b"slow")
        await world.publish(topic, b"before the buffer is full", key=b"other")
        await world.publish(topic, b"last of the buffer", key=b"slow")
        await world.publish(topic, b"behind it", key=b"another")
        await world.endpoints.until(lambda: world.endpoints.in_flight == 2)
        await three_periods(world)
        assert world.endpoints.in_flight == 2
        world.endpoints.gate.set()
        await world.plane.until(lambda: delivered(world, made.id) == 9)


async def test_a_batch_does_not_wait_for_the_next_poll_beyond_its_time(world: World) -> None:
    topic = await world.topic(partitions=1)
    made = await subscribed(world, topic, polling(2, HOUR))
    waits = replace(made.policy, batch_time=timedelta(milliseconds=50))
    world.plane.put(replace(made, delivery_type=DeliveryType.BATCH, policy=waits))
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbered(5))
        await world.plane.until(lambda: delivered(world, made.id) == 2)
    assert len(world.endpoints.attempts) == 1


async def test_polls_fill_batches(world: World) -> None:
    topic = await world.topic(partitions=1)
    made = await subscribed(world, topic, polling(2))
    larger = replace(made.policy, batch_size=4)
    world.plane.put(replace(made, delivery_type=DeliveryType.BATCH, policy=larger))
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbered(8))
        await world.plane.until(lambda: delivered(world, made.id) == 8)
    assert len(world.endpoints.attempts) == 2
