"""Receipts of a worker: what becomes of a message whose publisher waits."""

from dataclasses import replace
from datetime import timedelta

import pytest

from app.domain.catalogue.filters import Filter, FilterType
from app.domain.catalogue.topic import Topic
from app.domain.delivery import Delivered, Discarded, Outcome, Retry
from app.domain.message import NewRecord, Partition
from app.domain.runtime.receipt import FinalOutcome, Receipt, ReceiptAddress
from tests.fakes.worker import Attempt, World, delivered

WAITER = "a" * 32
FAR_MS = 10**14


@pytest.fixture
def world() -> World:
    return World()


def fails_once(attempt: Attempt) -> Outcome:
    if attempt.retry_count == 0:
        return Retry(reason="not yet", status=503)
    return Delivered(status=200)


async def publish(world: World, topic: Topic, body: bytes, *, number: int | None = None) -> None:
    header = (
        ((b"w", ReceiptAddress(WAITER, number, FAR_MS).header()),) if number is not None else ()
    )
    await world.log.append(topic.name, [NewRecord(value=body, headers=header)])


def told(world: World) -> list[Receipt]:
    return sorted(world.plane.receipts.get(WAITER, []))


async def test_each_subscription_says_what_became_of_the_message(world: World) -> None:
    topic = await world.topic()
    good = await world.subscribe(topic, "good")
    bad = await world.subscribe(topic, "bad")
    picky = await world.subscribe(topic, "picky")
    wanted = Filter(type=FilterType.JSONPATH, path="$.n", matcher="1")
    world.plane.put(replace(picky, filters=(wanted,)))
    world.endpoints.replies[bad.endpoint] = lambda _: Discarded(reason="refused", status=400)
    async with world.worker():
        await world.plane.until_applied()
        await publish(world, topic, b'{"n": 2}', number=7)
        await world.plane.until(lambda: len(told(world)) == 3)
    assert set(told(world)) == {
        Receipt(7, good.id, FinalOutcome.DELIVERED),
        Receipt(7, bad.id, FinalOutcome.DISCARDED, 400, "refused"),
        Receipt(7, picky.id, FinalOutcome.FILTERED),
    }


async def test_a_retry_is_no_end(world: World) -> None:
    topic = await world.topic()
    subscription = await world.subscribe(topic, message_backoff=timedelta(milliseconds=1))
    world.endpoints.replies[subscription.endpoint] = fails_once
    async with world.worker():
        await world.plane.until_applied()
        await publish(world, topic, b"1", number=1)
        await world.plane.until(lambda: bool(told(world)))
    assert told(world) == [Receipt(1, subscription.id, FinalOutcome.DELIVERED)]
    assert len(world.endpoints.attempts) == 2


async def test_a_discard_is_told_when_it_is_recorded_and_not_before(world: World) -> None:
    topic = await world.topic(partitions=1)
    subscription = await world.subscribe(topic)
    world.endpoints.replies[subscription.endpoint] = lambda _: Discarded(reason="no", status=400)
    async with world.worker():
        await world.plane.until_applied()
        world.endpoints.gate.clear()
        await publish(world, topic, b"1", number=1)
        await world.endpoints.until(lambda: world.endpoints.in_flight == 1)
        world.memory.go_down()
        world.endpoints.gate.set()
        await world.endpoints.until(lambda: world.endpoints.in_flight == 0)
        assert told(world) == []
        world.memory.come_back()
        await world.plane.until(lambda: bool(told(world)))
    assert told(world) == [Receipt(1, subscription.id, FinalOutcome.DISCARDED, 400, "no")]


async def test_nothing_is_told_where_nobody_waits(world: World) -> None:
    topic = await world.topic()
    subscription = await world.subscribe(topic)
    async with world.worker():
        await world.plane.until_applied()
        await publish(world, topic, b"1")
        await world.plane.until(lambda: delivered(world, subscription.id) == 1)
    assert world.plane.receipts == {}


async def test_a_database_that_is_down_holds_no_delivery_up_and_hears_of_it_later(
    world: World,
) -> None:
    topic = await world.topic()
    subscription = await world.subscribe(topic)
    async with world.worker():
        await world.plane.until_applied()
        world.plane.down = True
        await publish(world, topic, b"1", number=1)
        await publish(world, topic, b"2")
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 2)
        world.plane.down = False
        await world.plane.until(lambda: bool(told(world)))
    assert told(world) == [Receipt(1, subscription.id, FinalOutcome.DELIVERED)]


async def test_what_could_not_be_told_is_told_when_the_worker_stops(world: World) -> None:
    topic = await world.topic(partitions=1)
    subscription = await world.subscribe(topic)
    commits = world.memory.commits[subscription.group]
    async with world.worker():
        await world.plane.until_applied()
        world.plane.down = True
        await publish(world, topic, b"1", number=1)
        # By the time of its commit it was tried to tell.
        await world.plane.until(lambda: commits[Partition(topic.name, 0)].offset == 1)
        world.plane.down = False
    assert told(world) == [Receipt(1, subscription.id, FinalOutcome.DELIVERED)]
