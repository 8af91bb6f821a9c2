"""Discarded messages that go to a topic of their owner's."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from app.domain.catalogue.batching import BatchFormat, DeliveryType
from app.domain.catalogue.dead_letter import DeadLetter
from app.domain.catalogue.subscription import OnExhausted, Ordering, State, Subscription
from app.domain.catalogue.topic import Ack, Topic
from app.domain.delivery import Delivered, Discarded, Outcome, Retry
from app.domain.errors import LogUnavailableError
from app.domain.message import Message, NewRecord, Partition
from app.log.interface import Position
from tests.fakes.memory_log import MemoryLog
from tests.fakes.worker import Attempt, World, delivered, still_retried
from workers.main import Worker

REFUSING = "http://s.test/"
DEAD = "shop.dead"
SOON = timedelta(milliseconds=1)
LATE = timedelta(minutes=10)


@pytest.fixture
def world() -> World:
    return World()


class LogWithoutLetters(MemoryLog):
    """A log of which only the dead-letter topic is down, until it `takes_letters`."""

    takes_letters = False

    async def append(
        self, topic: str, records: Sequence[NewRecord], *, ack: Ack = Ack.ALL
    ) -> Sequence[Position]:
        if topic == DEAD and not self.takes_letters:
            raise LogUnavailableError("that topic is down")
        return await super().append(topic, records, ack=ack)


def refused(_: Attempt) -> Outcome:
    return Discarded(reason="refused", status=400)


def failing(_: Attempt) -> Outcome:
    return Retry(reason="failing", status=500, answer="no disk")


async def lettered(
    world: World, topic: Topic, name: str = "s", *, to: str = DEAD, **policy: object
) -> Subscription:
    """A subscription with a dead-letter topic, whose endpoint takes nothing."""
    settings: dict[str, Any] = policy
    subscription = await world.subscribe(topic, name, **settings)
    world.endpoints.replies[subscription.endpoint] = refused
    return world.plane.put(replace(subscription, dead_letter=DeadLetter(topic=to)))


def in_batches(subscription: Subscription) -> Subscription:
    return replace(subscription, delivery_type=DeliveryType.BATCH, batch_format=BatchFormat.PLAIN)


def letters(world: World, topic: str = DEAD) -> list[Message]:
    return [Message(record, Partition(topic, 0)) for record in world.memory.records(topic)]


@asynccontextmanager
async def working(world: World) -> AsyncIterator[Worker]:
    async with world.worker() as worker:
        await world.plane.until_applied()
        yield worker


async def test_a_discarded_message_is_delivered_to_who_subscribes_to_the_dead_letters(
    world: World,
) -> None:
    topic, dead = await world.topic(), await world.topic(DEAD, 1)
    subscription = await lettered(world, topic)
    reader = await world.subscribe(dead, "reader")
    async with working(world):
        record = NewRecord(
            value=b"\xff 1", key=b"k", headers=((b"id", b"m-1"), (b"ct", b"a/b"), (b"h-X", b"y"))
        )
        await world.log.append(topic.name, [record])
        await world.plane.until(lambda: delivered(world, reader.id) == 1)
    assert world.endpoints.bodies(reader.endpoint) == [b"\xff 1"]
    (letter,) = letters(world)
    assert (letter.body, letter.key, letter.content_type) == (b"\xff 1", b"k", b"a/b")
    said = {name.removeprefix(b"Angelia-Dead-Letter-"): value for name, value in letter.propagated}
    assert (
        said.items()
        >= {
            b"X": b"y",
            b"Reason": b"refused",
            b"Status": b"400",
            b"Attempts": b"1",
            b"Topic": b"shop.orders",
            b"Subscription": b"s",
            b"Message-Id": b"m-1",
        }.items()
    )
    (undelivered,) = world.plane.undelivered
    assert (undelivered.subscription_id, undelivered.body) == (subscription.id, b"\xff 1")


async def test_without_a_dead_letter_topic_nothing_is_appended(world: World) -> None:
    topic = await world.topic()
    await world.topic(DEAD, 1)
    world.endpoints.replies[REFUSING] = refused
    await world.subscribe(topic)
    async with working(world):
        await world.publish(topic, b"1")
        await world.plane.until(lambda: len(world.plane.undelivered) == 1)
    assert letters(world) == []


async def test_a_message_given_up_after_retries_is_a_dead_letter_too(world: World) -> None:
    topic = await world.topic()
    await world.topic(DEAD, 1)
    subscription = await lettered(
        world, topic, max_retries=2, message_backoff=timedelta(milliseconds=1)
    )
    world.endpoints.replies[REFUSING] = failing
    async with working(world):
        await world.publish(topic, b"1")
        await world.plane.until(lambda: len(world.plane.undelivered) == 1)
    (letter,) = letters(world)
    assert dict(letter.propagated)[b"Angelia-Dead-Letter-Attempts"] == b"3"
    (undelivered,) = world.plane.undelivered
    assert (undelivered.subscription_id, undelivered.answer) == (subscription.id, "no disk")


@pytest.mark.parametrize(
    ("policy", "retried"),
    [
        ({"message_backoff": SOON, "max_retries": 1}, []),
        ({"on_exhausted": OnExhausted.DISCARD}, ["1"]),
        ({"on_exhausted": OnExhausted.DISCARD_OLDEST}, ["2"]),
    ],
)
async def test_what_is_given_up_is_not_reported_as_retried_while_it_is_recorded(
    policy: dict[str, Any], retried: Sequence[str]
) -> None:
    log = LogWithoutLetters()
    world = World(log)
    topic = await world.topic(partitions=1)
    await world.topic(DEAD, 1)
    one: dict[str, Any] = {"in_flight_max": 1, "retry_buffer_max": 1, "message_backoff": LATE}
    subscription = await lettered(world, topic, **(one | policy))
    world.endpoints.replies[REFUSING] = failing

    def failed_twice() -> bool:
        load = world.plane.loads.get(subscription.id)
        return load is not None and load.counts.codes_5xx == 2

    async with working(world):
        records = [NewRecord(value=each, headers=((b"id", each),)) for each in (b"1", b"2")]
        await world.log.append(topic.name, records)
        await world.plane.until(failed_twice)
        reported = still_retried(world, subscription.id)
        log.takes_letters = True
    assert [each.message_id for each in reported] == retried


async def test_no_commit_passes_a_message_that_the_dead_letter_topic_does_not_have() -> None:
    log = LogWithoutLetters()
    world = World(log)
    topic = await world.topic(partitions=1)
    await world.topic(DEAD, 1)
    subscription = await lettered(world, topic)
    world.endpoints.replies[REFUSING] = lambda attempt: (
        refused(attempt) if attempt.body == b"1" else Delivered(status=200)
    )
    async with working(world):
        await world.publish(topic, b"1", b"2")
        await world.plane.until(lambda: delivered(world, subscription.id) == 1)
        assert log.commits[subscription.group][Partition(topic.name, 0)].offset == 0
        assert world.plane.undelivered == []
        log.takes_letters = True
        await world.plane.until(lambda: len(world.plane.undelivered) == 1)
    assert [record.value for record in log.records(DEAD)] == [b"1"]
    assert log.commits[subscription.group][Partition(topic.name, 0)].offset == 2
    assert len(world.endpoints.attempts) == 2


async def test_delivery_waits_while_the_log_is_down_and_then_goes_on(world: World) -> None:
    topic = await world.topic(partitions=1)
    await world.topic(DEAD, 1)
    await lettered(world, topic)
    async with working(world):
        world.endpoints.gate.clear()
        await world.publish(topic, b"1")
        await world.endpoints.until(lambda: world.endpoints.in_flight == 1)
        world.memory.go_down()
        world.endpoints.gate.set()
        await world.endpoints.until(lambda: world.endpoints.in_flight == 0)
        world.memory.come_back()
        await world.plane.until(lambda: len(world.plane.undelivered) == 1)
    assert [letter.body for letter in letters(world)] == [b"1"]
    assert len(world.endpoints.attempts) == 1


async def test_a_missing_dead_letter_topic_suspends_and_loses_nothing(world: World) -> None:
    topic = await world.topic(partitions=1)
    subscription = await lettered(world, topic, message_ttl=timedelta(0))
    other = await world.subscribe(topic, "other")
    async with working(world):
        await world.publish(topic, b"1", b"2")
        await world.plane.until(
            lambda: world.plane.subscriptions[subscription.id].state is State.SUSPENDED
        )
        await world.plane.until(lambda: delivered(world, other.id) == 2)
        await world.plane.until_applied()
        suspended = world.plane.subscriptions[subscription.id]
        assert suspended.state_reason == "The dead-letter topic does not exist"
        assert world.plane.undelivered == []
        await world.topic(DEAD, 1)
        world.plane.put(suspended.in_state(State.ACTIVE))
        await world.plane.until(lambda: len(world.plane.undelivered) == 2)
    assert sorted(letter.body or b"" for letter in letters(world)) == [b"1", b"2"]
    assert {each.reason for each in world.plane.undelivered} == {"refused"}


async def test_an_owner_who_gives_another_topic_overtakes_the_suspension(world: World) -> None:
    topic = await world.topic(partitions=1)
    await world.topic(DEAD, 1)
    subscription = await lettered(world, topic, to="shop.none", message_ttl=timedelta(0))
    async with working(world):
        world.plane.down = True
        await world.publish(topic, b"1")
        await world.endpoints.until(lambda: bool(world.endpoints.attempts))
        world.plane.put(replace(subscription, dead_letter=DeadLetter(topic=DEAD)))
        world.plane.down = False
        await world.plane.until(lambda: len(world.plane.undelivered) == 1)
    assert [letter.body for letter in letters(world)] == [b"1"]
    # Discarded again, and not sent again: it keeps why it was discarded.
    assert len(world.endpoints.attempts) == 1
    assert dict(letters(world)[0].propagated)[b"Angelia-Dead-Letter-Reason"] == b"refused"


async def test_a_message_that_goes_in_a_circle_ends_among_the_undelivered(world: World) -> None:
    topic, dead = await world.topic(), await world.topic(DEAD, 1)
    await lettered(world, topic)
    await lettered(world, dead, "mail", to=topic.name)
    async with working(world):
        await world.publish(topic, b"1")
        await world.plane.until(lambda: len(world.plane.undelivered) == 3)
    by_topic = sorted(each.topic for each in world.plane.undelivered)
    assert by_topic == ["shop.dead", "shop.orders", "shop.orders"]
    assert len(letters(world)) == 1


async def test_a_message_too_large_for_the_dead_letter_topic_stays_among_the_undelivered(
    world: World,
) -> None:
    topic = await world.topic(partitions=1)
    dead = await world.topic(DEAD, 1)
    world.memory.topics[DEAD] = replace(world.memory.topics[DEAD], message_size_max=1_024)
    reader = await world.subscribe(dead, "reader")
    await lettered(world, topic)
    async with working(world):
        await world.publish(topic, b"x" * 2_000, b"y")
        await world.plane.until(lambda: delivered(world, reader.id) == 1)
        await world.plane.until(lambda: len(world.plane.undelivered) == 2)
    assert [letter.body for letter in letters(world)] == [b"y"]


async def test_a_message_that_the_dead_letter_topic_refuses_stays_among_the_undelivered(
    world: World,
) -> None:
    topic = await world.topic(partitions=1)
    await world.topic(DEAD, 1)
    world.memory.compacted.add(DEAD)
    subscription = await lettered(world, topic)
    world.plane.put(replace(subscription, ordering=Ordering.PARTITION))
    with capture_logs() as logs:
        async with working(world):
            await world.publish(topic, b"1", b"2")
            await world.plane.until(lambda: len(world.plane.undelivered) == 2)
    assert letters(world) == []
    said = [each for each in logs if each["event"] == "dead_letter_refused"]
    named = [(each["topic"], each["message_id"]) for each in said]
    assert named == [(DEAD, "shop.orders/0/0"), (DEAD, "shop.orders/0/1")]


async def test_each_message_of_a_discarded_batch_is_a_dead_letter(world: World) -> None:
    topic = await world.topic(partitions=1)
    await world.topic(DEAD, 1)
    subscription = await lettered(world, topic, batch_size=3)
    world.plane.put(in_batches(subscription))
    async with working(world):
        await world.publish(topic, b"1", b"2", b"3")
        await world.plane.until(lambda: len(world.plane.undelivered) == 3)
    assert sorted(letter.body or b"" for letter in letters(world)) == [b"1", b"2", b"3"]
    assert len(world.endpoints.attempts) == 1


async def test_a_batch_without_its_dead_letter_topic_is_discarded_when_there_is_one(
    world: World,
) -> None:
    topic = await world.topic(partitions=1)
    subscription = await lettered(world, topic, to="shop.none", batch_size=3)
    batched = world.plane.put(in_batches(subscription))
    async with working(world):
        await world.publish(topic, b"1", b"2", b"3")
        await world.plane.until(
            lambda: world.plane.subscriptions[subscription.id].state is State.SUSPENDED
        )
        await world.plane.until_applied()
        assert world.plane.undelivered == []
        await world.topic(DEAD, 1)
        world.plane.put(replace(batched, dead_letter=DeadLetter(topic=DEAD)))
        await world.plane.until(lambda: len(world.plane.undelivered) == 3)
    assert sorted(letter.body or b"" for letter in letters(world)) == [b"1", b"2", b"3"]
