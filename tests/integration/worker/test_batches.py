"""A whole worker that delivers in batches, on a log in memory."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import orjson
import pytest

from app.domain.batching import BatchFormat, DeliveryType
from app.domain.delivery import (
    BATCH_VOLUME_EXCEEDED,
    BUFFER_FULL,
    GONE,
    PUBLISH_TTL_ELAPSED,
    RETRIES_EXHAUSTED,
    TTL_ELAPSED,
    Delivered,
    Discarded,
    Outcome,
    Retry,
)
from app.domain.filters import Filter, FilterType
from app.domain.message import NewRecord, Partition
from app.domain.subscription import OnExhausted, State, Subscription
from app.domain.topic import Topic
from tests.fakes.worker import Attempt, World, delivered

URL = "http://s.test/"
SOON = timedelta(milliseconds=2)
LATE = timedelta(minutes=10)
EVEN = (Filter(type=FilterType.JSONPATH, path="$", matcher="[0-9]*[02468]"),)


@pytest.fixture
def world() -> World:
    return World()


async def subscribed(
    world: World, topic: Topic, *, filters: tuple[Filter, ...] = (), **policy: object
) -> Subscription:
    """A subscription that gets plain batches, which wait for long unless `policy` says else."""
    made = await world.subscribe(topic, **{"batch_time": LATE, "message_backoff": SOON, **policy})
    return world.plane.put(
        replace(
            made,
            delivery_type=DeliveryType.BATCH,
            batch_format=BatchFormat.PLAIN,
            filters=filters,
        )
    )


def changed(world: World, subscription: Subscription, **policy: object) -> Subscription:
    new = replace(subscription.policy, **policy)  # type: ignore[arg-type]  # any settings
    return world.plane.put(replace(subscription, policy=new))


def numbers(*counts: int) -> list[bytes]:
    return [b"%d" % number for number in range(*counts)]


def batches(world: World) -> list[list[int]]:
    """What was sent, request by request."""
    return [orjson.loads(body) for body in world.endpoints.bodies(URL)]


def every(world: World) -> list[int]:
    return [number for batch in batches(world) for number in batch]


def discards(world: World) -> list[tuple[bytes, str, int]]:
    return sorted((each.body, each.reason, each.attempts) for each in world.plane.undelivered)


def first_fails(world: World, failure: Outcome, *, times: int = 1) -> None:
    def reply(_: Attempt) -> Outcome:
        failed = len(world.endpoints.bodies(URL)) <= times
        return failure if failed else Delivered(status=200)

    world.endpoints.replies[URL] = reply


def failing(world: World, *unwanted: int, status: int = 500) -> None:
    def reply(attempt: Attempt) -> Outcome:
        fails = not unwanted or set(orjson.loads(attempt.body)) & set(unwanted)
        return Retry(reason="no", status=status) if fails else Delivered(status=200)

    world.endpoints.replies[URL] = reply


async def collected(world: World, topic: Topic, *bodies: bytes) -> None:
    """Publish these and return when they are read: another subscription has them then."""
    other = next((s for s in world.plane.subscriptions.values() if s.name == "other"), None)
    if other is None:
        other = await world.subscribe(topic, "other")
        await world.plane.until_applied()
    had = delivered(world, other.id)
    await world.publish(topic, *bodies)
    await world.plane.until(lambda: delivered(world, other.id) == had + len(bodies))


async def test_messages_go_in_full_batches_in_order_one_of_a_partition_at_a_time(
    world: World,
) -> None:
    topic = await world.topic(partitions=1)
    subscription = await subscribed(world, topic, batch_size=5)
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbers(20))
        await world.plane.until(lambda: delivered(world, subscription.id) == 20)
    assert batches(world) == [[*range(low, low + 5)] for low in (0, 5, 10, 15)]
    assert world.endpoints.in_air_max == 1


async def test_partitions_do_not_wait_for_each_other(world: World) -> None:
    topic = await world.topic(partitions=4)
    subscription = await subscribed(world, topic, batch_size=2)
    world.endpoints.gate.clear()
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbers(40))
        await world.endpoints.until(lambda: world.endpoints.in_air == 4)
        world.endpoints.gate.set()
        await world.plane.until(lambda: delivered(world, subscription.id) >= 36)
    assert world.endpoints.in_air_max == 4


async def test_no_more_batches_are_in_the_air_than_requests_may_be(world: World) -> None:
    topic = await world.topic(partitions=4)
    subscription = await subscribed(world, topic, batch_size=1, in_flight_max=2)
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbers(40))
        await world.plane.until(lambda: delivered(world, subscription.id) == 40)
    assert world.endpoints.in_air_max == 2


async def test_a_batch_that_does_not_get_full_goes_in_time(world: World) -> None:
    topic = await world.topic(partitions=1)
    subscription = await subscribed(world, topic, batch_time=timedelta(milliseconds=30))
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbers(3))
        await world.plane.until(lambda: delivered(world, subscription.id) == 3)
    assert batches(world) == [[0, 1, 2]]


async def test_a_batch_waits_for_more_messages(world: World) -> None:
    topic = await world.topic(partitions=1)
    subscription = await subscribed(world, topic, batch_size=5)
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbers(3))
        await world.publish(topic, *numbers(3, 5))
        await world.plane.until(lambda: delivered(world, subscription.id) == 5)
    assert batches(world) == [[0, 1, 2, 3, 4]]


async def test_a_batch_is_tried_again_as_it_was_and_the_next_one_waits_for_it(
    world: World,
) -> None:
    topic = await world.topic(partitions=1)
    subscription = await subscribed(world, topic, batch_size=2)
    first_fails(world, Retry(reason="no", status=500), times=2)
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbers(4))
        await world.plane.until(lambda: delivered(world, subscription.id) == 4)
    assert batches(world) == [[0, 1]] * 3 + [[2, 3]]
    assert [each.retry_count for each in world.endpoints.attempts] == [0, 1, 2, 0]
    ids = [each.message_id for each in world.endpoints.attempts]
    assert len(set(ids[:3])) == 1
    assert ids[3] != ids[0]


async def test_each_message_of_a_discarded_batch_is_recorded_with_reason_and_attempts(
    world: World,
) -> None:
    topic = await world.topic(partitions=1)
    subscription = await subscribed(world, topic, batch_size=2)
    first_fails(world, Discarded(reason="bad", status=400))
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbers(4))
        await world.plane.until(lambda: delivered(world, subscription.id) == 2)
        await world.plane.until(lambda: len(world.plane.undelivered) == 2)
    assert discards(world) == [(b"0", "bad", 1), (b"1", "bad", 1)]
    assert sorted(each.offset for each in world.plane.undelivered) == [0, 1]
    assert {each.status for each in world.plane.undelivered} == {400}


@pytest.mark.parametrize(
    ("policy", "reason", "attempts"),
    [
        ({"max_retries": 2}, RETRIES_EXHAUSTED, 3),
        ({"message_ttl": timedelta(seconds=0)}, TTL_ELAPSED, 1),
    ],
)
async def test_a_batch_is_given_up_like_a_message(
    world: World, policy: dict[str, object], reason: str, attempts: int
) -> None:
    topic = await world.topic(partitions=1)
    subscription = await subscribed(world, topic, batch_size=2, **policy)
    failing(world, 0)
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbers(4))
        await world.plane.until(lambda: delivered(world, subscription.id) == 2)
        await world.plane.until(lambda: len(world.plane.undelivered) == 2)
    assert discards(world) == [(b"0", reason, attempts), (b"1", reason, attempts)]


async def test_the_time_to_live_of_a_batch_does_not_run_while_it_is_collected(
    world: World,
) -> None:
    topic = await world.topic(partitions=1)
    subscription = await subscribed(
        world,
        topic,
        batch_time=timedelta(milliseconds=300),
        message_ttl=timedelta(milliseconds=150),
    )
    first_fails(world, Retry(reason="no", status=500))
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbers(2))
        await world.plane.until(lambda: delivered(world, subscription.id) == 2)
    assert batches(world) == [[0, 1], [0, 1]]


async def test_an_endpoint_that_is_gone_gets_no_other_batch(world: World) -> None:
    topic = await world.topic(partitions=1)
    subscription = await subscribed(world, topic, batch_size=2)
    first_fails(world, Discarded(reason="gone", status=410, suspension=GONE))
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbers(4))
        await world.plane.until(
            lambda: world.plane.subscriptions[subscription.id].state is State.SUSPENDED
        )
        await world.plane.until(lambda: len(world.plane.undelivered) == 2)
        await world.plane.until_applied()
        assert batches(world) == [[0, 1]]
        stored = world.plane.subscriptions[subscription.id]
        world.plane.put(stored.in_state(State.ACTIVE))
        await world.plane.until(lambda: delivered(world, subscription.id) == 2)
    assert batches(world) == [[0, 1], [2, 3]]


async def test_a_message_larger_than_a_batch_is_discarded_and_the_others_go(world: World) -> None:
    topic = await world.topic(partitions=1)
    subscription = await subscribed(world, topic, batch_size=3, batch_volume=20)
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, b"1", b"2" * 19, b"3", b"4")
        await world.plane.until(lambda: delivered(world, subscription.id) == 3)
        await world.plane.until(lambda: len(world.plane.undelivered) == 1)
    assert batches(world) == [[1, 3, 4]]
    assert discards(world) == [(b"2" * 19, BATCH_VOLUME_EXCEEDED, 0)]


async def test_a_message_too_old_for_its_first_attempt_is_left_out_of_its_batch(
    world: World,
) -> None:
    topic = await world.topic(partitions=1)
    subscription = await subscribed(world, topic, batch_size=2, publish_ttl=timedelta(minutes=1))
    async with world.worker():
        await world.plane.until_applied()
        await world.log.append(topic.name, [NewRecord(value=b"0", timestamp_ms=1)])
        await world.publish(topic, b"1")
        await world.plane.until(lambda: delivered(world, subscription.id) == 1)
        await world.plane.until(lambda: len(world.plane.undelivered) == 1)
    assert batches(world) == [[1]]
    assert discards(world) == [(b"0", PUBLISH_TTL_ELAPSED, 0)]


async def test_a_batch_is_sent_when_its_youngest_message_may_be(world: World) -> None:
    topic = await world.topic(partitions=1)
    delay = timedelta(milliseconds=200)
    subscription = await subscribed(world, topic, batch_size=2, sending_delay=delay)
    async with world.worker():
        await world.plane.until_applied()
        began = asyncio.get_running_loop().time()
        await world.publish(topic, *numbers(2))
        await world.plane.until(lambda: delivered(world, subscription.id) == 2)
    assert world.endpoints.attempts[0].at - began >= 0.15


async def test_the_rate_counts_requests(world: World) -> None:
    topic = await world.topic(partitions=2)
    subscription = await subscribed(world, topic, batch_size=50, rate=5)
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbers(400))
        await world.plane.until(lambda: delivered(world, subscription.id) >= 300)
    times = [each.at for each in world.endpoints.attempts]
    assert all(later - first >= 0.99 for first, later in zip(times, times[5:], strict=False))


async def test_no_batch_goes_while_the_subscriber_asked_for_quiet(world: World) -> None:
    topic = await world.topic(partitions=2)
    subscription = await subscribed(world, topic, batch_size=2)
    quiet = timedelta(milliseconds=300)
    first_fails(world, Retry(reason="busy", status=503, retry_after=quiet))
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, b"0", b"1", key=b"k")
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 1)
        await world.publish(topic, *numbers(2, 10))
        await world.plane.until(lambda: delivered(world, subscription.id) == 10)
    first, second, *_ = world.endpoints.attempts
    assert second.at - first.at >= 0.3


async def test_no_offset_of_a_batch_closes_while_its_discards_cannot_be_recorded(
    world: World,
) -> None:
    topic = await world.topic(partitions=1)
    subscription = await subscribed(world, topic, batch_size=2)
    world.endpoints.replies[URL] = lambda _: Discarded(reason="bad", status=400)
    async with world.worker():
        await world.plane.until_applied()
        world.endpoints.gate.clear()
        await world.publish(topic, *numbers(2))
        await world.endpoints.until(lambda: world.endpoints.in_air == 1)
        world.memory.go_down()
        world.endpoints.gate.set()
        await world.endpoints.until(lambda: world.endpoints.in_air == 0)
        assert committed(world, subscription) == 0
        world.memory.come_back()
        await world.plane.until(lambda: len(world.plane.undelivered) == 2)
    assert committed(world, subscription) == 2


def committed(world: World, subscription: Subscription, index: int = 0) -> int:
    return world.memory.commits[subscription.group][Partition(subscription.topic, index)].offset


async def test_what_the_full_retry_buffer_does_it_does_to_batches(world: World) -> None:
    topic = await world.topic(partitions=2)
    await subscribed(
        world,
        topic,
        batch_size=2,
        retry_buffer_max=1,
        on_exhausted=OnExhausted.DISCARD,
        message_backoff=LATE,
    )
    failing(world)
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbers(4))
        await world.plane.until(lambda: len(world.plane.undelivered) == 2)
    assert {reason for _, reason, _ in discards(world)} == {BUFFER_FULL}


async def test_a_batch_that_is_due_waits_for_room_in_the_retry_buffer(world: World) -> None:
    topic = await world.topic(partitions=2)
    subscription = await subscribed(
        world,
        topic,
        batch_size=2,
        batch_time=timedelta(milliseconds=1),
        retry_buffer_max=1,
        message_backoff=timedelta(milliseconds=300),
    )
    first_fails(world, Retry(reason="no", status=500))
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, b"0", b"1", key=b"k")
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 1)
        await world.publish(topic, *numbers(2, 5))
        await world.plane.until(lambda: delivered(world, subscription.id) == 5)
    assert world.endpoints.attempts[1].at - world.endpoints.attempts[0].at >= 0.25


# ---- what is open when something changes ---------------------------------------------------------


async def test_a_worker_that_stops_neither_waits_for_an_open_batch_nor_loses_or_repeats_it(
    world: World,
) -> None:
    topic = await world.topic(partitions=1)
    subscription = await subscribed(world, topic, batch_size=3)
    async with asyncio.timeout(10):
        async with world.worker():
            await world.plane.until_applied()
            await collected(world, topic, *numbers(5))
            await world.plane.until(lambda: delivered(world, subscription.id) == 3)
    assert committed(world, subscription) == 3
    async with world.worker("w2"):
        await world.publish(topic, b"5")
        await world.plane.until(lambda: delivered(world, subscription.id) == 6)
    assert batches(world) == [[0, 1, 2], [3, 4, 5]]


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


def filtered(world: World, subscription: Subscription) -> int:
    return sum(s.filtered for (i, _), s in world.plane.statuses.items() if i == subscription.id)


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
        await world.endpoints.until(lambda: world.endpoints.in_air == 1)
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
        await world.endpoints.until(lambda: world.endpoints.in_air == 2)
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
