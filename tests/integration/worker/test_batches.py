"""A whole worker that delivers in batches, on a log in memory."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from app.domain.catalogue.subscription import OnExhausted, State
from app.domain.catalogue.topic import Ack
from app.domain.delivery import (
    BATCH_VOLUME_EXCEEDED,
    BUFFER_FULL,
    GONE,
    PUBLISH_TTL_ELAPSED,
    RETRIES_EXHAUSTED,
    TTL_ELAPSED,
    Discarded,
    Retry,
)
from app.domain.errors import LogUnavailableError
from app.domain.message import NewRecord, Partition
from app.domain.streams import UNDELIVERED
from app.log.interface import Position
from tests.fakes.memory_log import MemoryLog
from tests.fakes.worker import World, delivered, still_retried
from tests.integration.worker.batching import (
    LATE,
    URL,
    batches,
    collected,
    discards,
    failing,
    first_fails,
    numbers,
    subscribed,
)


@pytest.fixture
def world() -> World:
    return World()


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
    assert world.endpoints.in_flight_peak == 1


async def test_partitions_do_not_wait_for_each_other(world: World) -> None:
    topic = await world.topic(partitions=4)
    subscription = await subscribed(world, topic, batch_size=2)
    world.endpoints.gate.clear()
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbers(40))
        await world.endpoints.until(lambda: world.endpoints.in_flight == 4)
        world.endpoints.gate.set()
        await world.plane.until(lambda: delivered(world, subscription.id) >= 36)
    assert world.endpoints.in_flight_peak == 4


async def test_no_more_batches_are_in_the_air_than_requests_may_be(world: World) -> None:
    topic = await world.topic(partitions=4)
    subscription = await subscribed(world, topic, batch_size=1, in_flight_max=2)
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbers(40))
        await world.plane.until(lambda: delivered(world, subscription.id) == 40)
    assert world.endpoints.in_flight_peak == 2


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
    first_fails(world, Discarded(reason="bad", status=400, answer="no"))
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbers(4))
        await world.plane.until(lambda: delivered(world, subscription.id) == 2)
        await world.plane.until(lambda: len(world.plane.undelivered) == 2)
    assert discards(world) == [(b"0", "bad", 1), (b"1", "bad", 1)]
    assert {each.answer for each in world.plane.undelivered} == {"no"}
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
    world: World, policy: dict[str, Any], reason: str, attempts: int
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


async def test_a_batch_that_is_retried_is_reported_by_its_first_message(world: World) -> None:
    topic = await world.topic(partitions=1)
    subscription = await subscribed(world, topic, batch_size=2)
    failing(world, 0)
    async with world.worker():
        await world.plane.until_applied()
        records = [NewRecord(value=each, headers=((b"id", b"m-" + each),)) for each in numbers(2)]
        await world.log.append(topic.name, records)
        await world.plane.until(lambda: bool(still_retried(world, subscription.id)))
        (batch,) = still_retried(world, subscription.id)
        world.endpoints.replies.clear()
        await world.plane.until(lambda: not still_retried(world, subscription.id))
    assert batch.message_id == "m-0"


async def test_the_time_to_live_of_a_batch_does_not_run_while_it_is_collected(
    world: World,
) -> None:
    topic = await world.topic(partitions=1)
    subscription = await subscribed(
        world,
        topic,
        # The retry has the whole time to live, on a machine that stands still for a second, too.
        batch_time=timedelta(milliseconds=2_500),
        message_ttl=timedelta(milliseconds=2_000),
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
    subscription = await subscribed(world, topic, batch_size=2, publish_ttl=2 * LATE)
    async with world.worker():
        await world.plane.until_applied()
        await world.log.append(topic.name, [NewRecord(value=b"0", timestamp_ms=1)])
        await world.publish(topic, b"1")
        await world.plane.until(lambda: delivered(world, subscription.id) == 1)
        await world.plane.until(lambda: len(world.plane.undelivered) == 1)
    assert batches(world) == [[1]]
    assert discards(world) == [(b"0", PUBLISH_TTL_ELAPSED, 0)]


async def test_messages_too_old_for_their_batch_are_discarded_though_the_rate_is_used_up(
    world: World,
) -> None:
    topic = await world.topic(partitions=1)
    soon, minute = timedelta(milliseconds=20), timedelta(minutes=1)
    await subscribed(world, topic, batch_time=soon, publish_ttl=minute, rate=1)
    old = [NewRecord(value=b"%d" % number, timestamp_ms=1) for number in (0, 1)]
    async with world.worker():
        await world.plane.until_applied()
        await world.log.append(topic.name, [*old, NewRecord(value=b"2")])
        await world.plane.until(lambda: len(world.plane.undelivered) == 2)
    assert batches(world) == [[2]]


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


class NoUndelivered(MemoryLog):
    """A log that does not take what is discarded, until it is `mended`."""

    mended = False

    async def append(
        self, topic: str, records: Sequence[NewRecord], *, ack: Ack = Ack.ALL
    ) -> Sequence[Position]:
        if topic == UNDELIVERED and not self.mended:
            raise LogUnavailableError("the undelivered stream is down")
        return await super().append(topic, records, ack=ack)


async def test_no_offset_of_a_batch_closes_while_its_discards_cannot_be_recorded() -> None:
    log = NoUndelivered()
    world = World(log)
    topic = await world.topic(partitions=1)
    subscription = await subscribed(world, topic, batch_size=2)
    world.endpoints.replies[URL] = lambda _: Discarded(reason="bad", status=400)
    async with world.worker():
        await world.plane.until_applied()
        await collected(world, topic, *numbers(4))
        assert batches(world) == [[0, 1]]
        place = log.commits[subscription.group]
        assert place[Partition(topic.name, 0)].offset == 0
        log.mended = True
        await world.plane.until(lambda: len(world.plane.undelivered) == 4)
    assert place[Partition(topic.name, 0)].offset == 4


@pytest.mark.parametrize("action", [OnExhausted.DISCARD, OnExhausted.DISCARD_OLDEST])
async def test_a_full_retry_buffer_discards_whole_batches(
    world: World, action: OnExhausted
) -> None:
    topic = await world.topic(partitions=2)
    settings: dict[str, Any] = {"batch_size": 2, "retry_buffer_max": 1, "message_backoff": LATE}
    await subscribed(world, topic, on_exhausted=action, **settings)
    failing(world)
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbers(4))
        await world.plane.until(lambda: len(world.plane.undelivered) == 2)
    assert {reason for _, reason, _ in discards(world)} == {BUFFER_FULL}
    first, second = batches(world)
    gone = second if action is OnExhausted.DISCARD else first
    assert sorted(int(body) for body, _, _ in discards(world)) == gone


async def test_a_full_retry_buffer_suspends_who_asked_for_that(world: World) -> None:
    topic = await world.topic(partitions=2)
    settings: dict[str, Any] = {"batch_size": 2, "retry_buffer_max": 1, "message_backoff": LATE}
    made = await subscribed(world, topic, on_exhausted=OnExhausted.ABORT, **settings)
    failing(world)
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbers(4))
        await world.plane.until(lambda: world.plane.subscriptions[made.id].state is State.SUSPENDED)
    assert world.plane.undelivered == []


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
