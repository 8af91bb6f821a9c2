"""What a worker says of its deliveries, entry by entry, and that it never waits to say it."""

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from app.domain.catalogue.batching import DeliveryType
from app.domain.catalogue.filters import Filter, FilterType
from app.domain.catalogue.subscription import Subscription
from app.domain.catalogue.topic import Topic
from app.domain.delivery import Delivered, Discarded, Outcome, Retry
from app.domain.message import HEADER_ID, HEADER_TARGET, NewRecord
from app.domain.streams import TRACES
from app.domain.targeted import RecordTarget
from app.domain.trace import TrackingMode
from tests.fakes.egress import LOOPBACK
from tests.fakes.subscriber import Subscriber
from tests.fakes.worker import Attempt, World, delivered
from tests.integration.worker.tracing import entries_of, statuses, tracked, until_traced
from workers.delivery.sender import Sender


async def a_tracked(
    world: World,
    mode: TrackingMode = TrackingMode.ALL,
    **policy: Any,  # noqa: ANN401 - of `subscribe`
) -> tuple[Topic, Subscription]:
    topic = await world.topic(partitions=1)
    return topic, tracked(world, await world.subscribe(topic, **policy), mode)


def fails_twice(attempt: Attempt) -> Outcome:
    return Retry(reason="busy", status=503) if attempt.retry_count < 2 else Delivered(status=201)


async def test_each_attempt_is_an_entry_with_its_answer_and_where_the_time_went() -> None:
    world = World()
    topic, subscription = await a_tracked(world, message_backoff=timedelta(milliseconds=30))
    world.endpoints.replies[subscription.endpoint] = fails_twice
    async with world.worker():
        await world.publish(topic, b"x")
        await until_traced(world, "INFLIGHT", "FAILED", "INFLIGHT", "FAILED", "INFLIGHT", "SUCCESS")
    entries = entries_of(world.plane.traces)
    ends = entries[1::2]
    assert [(each.attempt, each.status_code, each.reason) for each in ends] == [
        (1, 503, "busy"),
        (2, 503, "busy"),
        (3, 201, ""),
    ]
    assert {each.worker for each in entries} == {"w1"}
    assert {(each.source.topic, each.source.subscription) for each in entries} == {
        (topic.name, "s")
    }
    assert {(each.partition, each.offset) for each in entries} == {(0, 0)}
    assert all(first.at <= second.at for first, second in pairwise(entries))
    assert [each.queued is not None for each in ends] == [True, False, False]
    backoff, long = timedelta(milliseconds=25), timedelta(minutes=1)
    assert all(each.waited is not None and backoff < each.waited < long for each in ends[1:])
    assert all(each.took is not None and each.took >= timedelta(0) for each in ends)


async def test_nothing_is_said_unless_it_is_asked_for() -> None:
    world = World()
    topic, subscription = await a_tracked(world, TrackingMode.OFF)
    world.endpoints.replies[subscription.endpoint] = lambda _: Discarded(reason="no", status=400)
    async with world.worker():
        await world.publish(topic, b"x")
        await world.plane.until(lambda: len(world.plane.undelivered) == 1)
    assert world.plane.traces == []


async def test_only_discards_are_said_when_only_they_are_asked_for() -> None:
    world = World()
    topic, subscription = await a_tracked(world, TrackingMode.DISCARDED)
    world.endpoints.replies[subscription.endpoint] = lambda attempt: (
        Discarded(reason="no", status=400) if attempt.body == b"bad" else Delivered(status=200)
    )
    async with world.worker():
        await world.publish(topic, b"good", b"bad", b"good")
        await until_traced(world, "DISCARDED")
        await world.plane.until(lambda: delivered(world, subscription.id) == 2)
    (entry,) = entries_of(world.plane.traces)
    assert (entry.offset, entry.attempt, entry.status_code, entry.reason) == (1, 1, 400, "no")


async def test_a_discard_follows_the_attempt_that_failed() -> None:
    world = World()
    topic, subscription = await a_tracked(world)
    world.endpoints.replies[subscription.endpoint] = lambda _: Discarded(reason="no", status=400)
    async with world.worker():
        await world.publish(topic, b"x")
        await until_traced(world, "INFLIGHT", "FAILED", "DISCARDED")


async def test_a_message_that_is_filtered_out_says_so() -> None:
    world = World()
    topic = await world.topic(partitions=1)
    wanted = Filter(type=FilterType.CEL, expression="text == 'wanted'")
    subscription = await world.subscribe(topic)
    tracked(world, replace(subscription, filters=(wanted,)))
    async with world.worker():
        await world.publish(topic, b"x")
        await until_traced(world, "FILTERED")


@pytest.mark.parametrize("published_ms", [0, -(1 << 62), (1 << 63) - 1])
async def test_a_foreign_producer_may_say_any_time(published_ms: int) -> None:
    world = World()
    topic, _ = await a_tracked(world)
    async with world.worker():
        await world.log.append(topic.name, [NewRecord(value=b"x", timestamp_ms=published_ms)])
        await until_traced(world, "INFLIGHT", "SUCCESS")
    queued = [each.queued for each in entries_of(world.plane.traces)]
    assert all(each is not None and each >= timedelta(0) for each in queued)


async def test_an_attempt_in_the_air_says_so_and_is_told_once() -> None:
    world = World()
    topic, _ = await a_tracked(world)
    world.endpoints.gate.clear()
    async with world.worker():
        await world.publish(topic, b"x")
        await until_traced(world, "INFLIGHT")
        world.endpoints.gate.set()
        await until_traced(world, "INFLIGHT", "SUCCESS")


async def test_each_message_of_a_batch_has_its_entry_with_the_batch() -> None:
    world = World()
    topic = await world.topic(partitions=1)
    subscription = await world.subscribe(topic, batch_size=2)
    tracked(world, replace(subscription, delivery_type=DeliveryType.BATCH))
    async with world.worker():
        await world.publish(topic, b"1", b"2")
        await world.plane.until(lambda: statuses(world).count("SUCCESS") == 2)
    ends = [each for each in entries_of(world.plane.traces) if each.status == "SUCCESS"]
    assert [each.offset for each in ends] == [0, 1]
    (batch_id,) = {each.batch_id for each in ends}
    assert batch_id == world.endpoints.attempts[0].message_id.decode()


async def test_a_retransmission_is_named() -> None:
    world = World()
    topic, subscription = await a_tracked(world)
    record_target = RecordTarget(subscription.id, "0" * 32)
    headers = ((HEADER_ID, b"m"), (HEADER_TARGET, record_target.header()))
    async with world.worker():
        await world.log.append(topic.name, [NewRecord(value=b"x", headers=headers)])
        await until_traced(world, "INFLIGHT", "SUCCESS")
    assert {each.retransmission for each in entries_of(world.plane.traces)} == {"0" * 32}


async def test_what_is_traced_changes_with_the_subscription() -> None:
    world = World()
    topic, subscription = await a_tracked(world, TrackingMode.OFF)
    async with world.worker():
        await world.publish(topic, b"1")
        await world.plane.until(lambda: delivered(world, subscription.id) == 1)
        tracked(world, subscription)
        await world.plane.until_applied()
        await world.publish(topic, b"2")
        await until_traced(world, "INFLIGHT", "SUCCESS")


async def test_delivery_goes_on_while_the_stream_takes_nothing_and_losses_are_counted() -> None:
    world = World()
    topic, subscription = await a_tracked(world)
    async with world.worker():
        # From here on the stream is there, and is not made again.
        await world.publish(topic, b"first")
        await until_traced(world, "INFLIGHT", "SUCCESS")
        await world.log.delete_topic(TRACES)
        for _ in range(10):
            await world.publish(topic, *[b"x"] * 50)
        await world.plane.until(lambda: delivered(world, subscription.id) == 501)
    assert statuses(world) == ["INFLIGHT", "SUCCESS"]


async def test_all_is_said_when_the_worker_has_stopped() -> None:
    world = World()
    topic, subscription = await a_tracked(world)
    async with world.worker():
        await world.publish(topic, *[b"x"] * 20)
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 20)
    async with world.worker("w2"):
        await world.plane.until(lambda: statuses(world).count("SUCCESS") == 20)
    assert delivered(world, subscription.id) == 20


async def test_a_store_that_is_down_is_caught_up_with() -> None:
    world = World()
    topic, subscription = await a_tracked(world)
    async with world.worker():
        await world.plane.until_applied()
        world.plane.down = True
        await world.publish(topic, *[b"x"] * 5)
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 5)
        world.plane.down = False
        await world.plane.until(lambda: statuses(world).count("SUCCESS") == 5)
        await world.plane.until(lambda: delivered(world, subscription.id) == 5)


async def test_an_attempt_says_where_it_went_and_how_long_opening_a_connection_took() -> None:
    async with Subscriber() as receiver, Sender(egress=LOOPBACK) as sender:
        world = World(sender=sender)
        topic = await world.topic(partitions=1)
        tracked(world, await world.subscribe(topic, endpoint=receiver.url))
        async with world.worker():
            for count in (1, 2):
                await world.publish(topic, b"x")
                await world.plane.until(lambda: statuses(world).count("SUCCESS") == count)  # noqa: B023 - waited for
    first, second = (each for each in entries_of(world.plane.traces) if each.status == "SUCCESS")
    assert first.address == f"127.0.0.1:{receiver.port}"
    assert first.connect is not None
    assert first.took is not None
    assert timedelta(0) < first.connect < first.took
    assert (second.address, second.connect) == (first.address, None)
