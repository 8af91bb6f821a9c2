"""Messages that are for one subscription of their topic alone."""

from dataclasses import replace
from datetime import timedelta

import pytest

from app.domain.catalogue.fetch import FetchMode, FetchPolicy
from app.domain.catalogue.subscription import Ordering, Subscription
from app.domain.catalogue.topic import Topic
from app.domain.delivery import Delivered, Discarded, Outcome, Retry
from app.domain.message import HEADER_ID, HEADER_TARGET, NewRecord
from app.domain.targeted import RecordTarget
from tests.fakes.worker import Attempt, World, delivered
from tests.integration.worker.batching import batches, committed, filtered, subscribed

JOB = "f" * 32
SOON = timedelta(milliseconds=2)


@pytest.fixture
def world() -> World:
    return World()


async def send_again(
    world: World, topic: Topic, to: Subscription | str, *bodies: bytes, key: bytes | None = None
) -> None:
    subscription_id = to if isinstance(to, str) else to.id
    header = (HEADER_TARGET, RecordTarget(subscription_id, JOB).header())
    records = [
        NewRecord(value=body, key=key, headers=((HEADER_ID, body), header)) for body in bodies
    ]
    await world.log.append(topic.name, records)


def counted(world: World, subscription: Subscription) -> tuple[int, int, int]:
    """Delivered, discarded and filtered."""
    own = [s for (i, _), s in world.plane.statuses.items() if i == subscription.id]
    return (
        sum(s.delivered for s in own),
        sum(s.discarded for s in own),
        sum(s.filtered for s in own),
    )


async def until_committed(world: World, subscription: Subscription, offset: int) -> None:
    await world.plane.until(lambda: committed(world, subscription) == offset)


async def test_only_the_addressee_gets_it_and_nobody_else_counts_it(world: World) -> None:
    topic = await world.topic(partitions=1)
    addressee, neighbour = [await world.subscribe(topic, name) for name in ("a", "b")]
    async with world.worker():
        await world.plane.until_applied()
        await send_again(world, topic, addressee, b"1", b"2")
        await until_committed(world, neighbour, 2)
        await world.publish(topic, b"3")
        await send_again(world, topic, addressee, b"4")
        await until_committed(world, neighbour, 4)
        await until_committed(world, addressee, 4)
        await world.plane.until(lambda: counted(world, addressee) == (4, 0, 0))
        await world.plane.until(lambda: counted(world, neighbour) == (1, 0, 0))
    assert world.endpoints.bodies(neighbour.endpoint) == [b"3"]
    assert sorted(world.endpoints.bodies(addressee.endpoint)) == [b"1", b"2", b"3", b"4"]


async def test_those_of_a_subscription_that_is_gone_are_passed_over_by_all(world: World) -> None:
    topic = await world.topic(partitions=1)
    subscription = await world.subscribe(topic)
    async with world.worker():
        await world.plane.until_applied()
        await send_again(world, topic, "0" * 32, b"1")
        await until_committed(world, subscription, 1)
    assert world.endpoints.attempts == []
    assert world.plane.undelivered == []


async def test_it_is_tried_again_and_discarded_as_any_other(world: World) -> None:
    topic = await world.topic(partitions=1)
    addressee = await world.subscribe(topic, "a", message_backoff=SOON)
    await world.subscribe(topic, "b")

    def reply(attempt: Attempt) -> Outcome:
        if attempt.body == b"bad":
            return Discarded(reason="no", status=400)
        return Delivered(status=200) if attempt.retry_count else Retry(reason="busy", status=503)

    world.endpoints.replies[addressee.endpoint] = reply
    async with world.worker():
        await world.plane.until_applied()
        await send_again(world, topic, addressee, b"good", b"bad")
        await world.plane.until(lambda: len(world.plane.undelivered) == 1)
        await until_committed(world, addressee, 2)
        await world.plane.until(lambda: counted(world, addressee) == (1, 1, 0))
    assert [(a.body, a.retry_count) for a in world.endpoints.attempts] == [
        (b"good", 0),
        (b"bad", 0),
        (b"good", 1),
    ]
    [discard] = world.plane.undelivered
    assert (discard.subscription_id, discard.message_id) == (addressee.id, "bad")
    assert discard.retransmission == JOB


async def test_it_keeps_the_order_of_its_key_and_holds_up_no_neighbour(world: World) -> None:
    topic = await world.topic(partitions=1)
    made = [await world.subscribe(topic, name, message_backoff=SOON) for name in ("a", "b")]
    addressee, neighbour = [world.plane.put(replace(each, ordering=Ordering.KEY)) for each in made]

    def busy_with_the_first(attempt: Attempt) -> Outcome:
        first_tries = attempt.body == b"again" and attempt.retry_count < 3
        return Retry(reason="busy", status=503) if first_tries else Delivered(status=200)

    world.endpoints.replies[addressee.endpoint] = busy_with_the_first
    async with world.worker():
        await world.plane.until_applied()
        await send_again(world, topic, addressee, b"again", key=b"k")
        await world.publish(topic, b"new", key=b"k")
        await until_committed(world, addressee, 2)
        await until_committed(world, neighbour, 2)
    assert world.endpoints.bodies(addressee.endpoint) == [b"again"] * 4 + [b"new"]
    assert world.endpoints.bodies(neighbour.endpoint) == [b"new"]


async def test_what_lies_above_an_unfinished_message_is_finished_over_a_crash(
    world: World,
) -> None:
    topic = await world.topic(partitions=1)
    addressee, neighbour = [await world.subscribe(topic, name) for name in ("a", "b")]
    later = timedelta(minutes=5)
    slow = world.plane.put(
        replace(neighbour, policy=replace(neighbour.policy, message_backoff=later))
    )
    world.endpoints.replies[slow.endpoint] = lambda _: Retry(reason="busy", status=503)
    async with world.doomed_worker():
        await world.plane.until_applied()
        await world.publish(topic, b"0")
        await send_again(world, topic, addressee, b"1", b"2")
        await until_committed(world, addressee, 3)
        await world.plane.until(lambda: len(world.endpoints.bodies(slow.endpoint)) == 1)
    world.endpoints.replies.clear()
    async with world.worker("w2"):
        await until_committed(world, slow, 3)
        await world.plane.until(lambda: counted(world, slow) == (1, 0, 0))
    assert world.endpoints.bodies(slow.endpoint) == [b"0", b"0"]
    assert world.endpoints.bodies(addressee.endpoint) == [b"0", b"1", b"2"]


async def test_a_batch_is_made_of_what_is_for_its_subscription(world: World) -> None:
    topic = await world.topic(partitions=1)
    batched = await subscribed(world, topic, batch_size=3)
    other = await world.subscribe(topic, "other")
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, b"0")
        await send_again(world, topic, other, b"7", b"8")
        await send_again(world, topic, batched, b"1")
        await world.publish(topic, b"2")
        await send_again(world, topic, other, b"9")
        await until_committed(world, batched, 6)
        await world.plane.until(lambda: delivered(world, batched.id) == 3)
    assert batches(world) == [[0, 1, 2]]
    assert filtered(world, batched) == 0
    assert world.endpoints.bodies(other.endpoint) == [b"0", b"7", b"8", b"2", b"9"]


async def test_a_poll_does_not_count_what_is_for_others(world: World) -> None:
    topic = await world.topic(partitions=1)
    poller, other = [await world.subscribe(topic, name) for name in ("a", "b")]
    rarely = FetchPolicy(mode=FetchMode.POLLING, poll_size=2, polling_time=timedelta(hours=1))
    poller = world.plane.put(replace(poller, fetch=rarely))
    async with world.worker():
        await world.plane.until_applied()
        await send_again(world, topic, other, b"1", b"2", b"3")
        await until_committed(world, poller, 3)
    assert world.endpoints.bodies(poller.endpoint) == []
    await world.publish(topic, b"4", b"5")
    async with world.worker("w2"):
        await until_committed(world, poller, 5)
    assert world.endpoints.bodies(poller.endpoint) == [b"4", b"5"]
