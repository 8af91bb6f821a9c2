"""A whole worker whose subscriber asks to come later: what goes first, and what is not opened."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import orjson
import pytest

from app.domain.catalogue.subscription import Ordering
from app.domain.delivery import Delivered, Outcome, Retry
from tests.fakes.egress import LOOPBACK
from tests.fakes.subscriber import Received, Reply, Subscriber
from tests.fakes.worker import Attempt, World, delivered
from tests.integration.worker import batching
from workers.delivery.sender import Sender

URL = "http://s.test/"
SOON = timedelta(milliseconds=5)
LATER = Retry(reason="busy", status=503, retry_after=SOON)


@pytest.fixture
def world() -> World:
    return World()


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def at_first_later(attempt: Attempt) -> Outcome:
    return Delivered(status=200) if attempt.retry_count else LATER


def twice(bodies: Sequence[bytes]) -> list[bytes]:
    return [body for body in bodies for _ in range(2)]


@pytest.mark.parametrize("ordering", Ordering)
async def test_what_was_put_off_goes_before_what_is_new(world: World, ordering: Ordering) -> None:
    topic = await world.topic(partitions=1)
    made = await world.subscribe(topic, in_flight_max=1, message_backoff=SOON)
    world.plane.put(replace(made, ordering=ordering))
    world.endpoints.replies[URL] = at_first_later
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbered(20), key=b"k")
        await world.plane.until(lambda: delivered(world, made.id) == 20)
    assert world.endpoints.bodies() == twice(numbered(20))


async def test_a_batch_that_was_put_off_goes_before_those_of_other_partitions(world: World) -> None:
    topic = await world.topic(partitions=3)
    made = await batching.subscribed(world, topic, batch_size=2, in_flight_max=1)
    world.endpoints.replies[URL] = at_first_later
    async with world.worker():
        await world.plane.until_applied()
        for key in (b"a", b"b", b"c", b"d"):
            await world.publish(topic, *batching.numbers(10), key=key)
        await world.plane.until(lambda: delivered(world, made.id) == 40)
    sent = [orjson.dumps(batch) for batch in batching.batches(world)]
    assert sent == twice(sent[::2])


async def test_nothing_new_is_opened_until_the_subscriber_has_taken_what_it_put_off(
    world: World,
) -> None:
    topic = await world.topic(partitions=1)
    made = await world.subscribe(topic, in_flight_max=3, message_backoff=SOON)
    world.endpoints.replies[URL] = lambda _: (
        LATER if len(world.endpoints.attempts) <= 40 else Delivered(status=200)
    )
    async with world.worker():
        await world.plane.until_applied()
        world.endpoints.gate.clear()
        await world.publish(topic, *numbered(3))
        await world.endpoints.until(lambda: world.endpoints.in_flight == 3)
        await world.publish(topic, *[b"new"] * 50)
        world.endpoints.gate.set()
        await world.plane.until(lambda: delivered(world, made.id) == 53)
    # One for which it is tried whether the oldest is at fault: after 4, 8, 16 and 32 refusals.
    assert world.endpoints.bodies()[:40].count(b"new") <= 4
    assert world.endpoints.bodies()[3:6] == [b"0"] * 3


async def test_one_message_that_is_always_put_off_does_not_stop_the_others(world: World) -> None:
    topic = await world.topic(partitions=1)
    made = await world.subscribe(topic, in_flight_max=1, message_backoff=SOON)
    world.endpoints.replies[URL] = lambda attempt: (
        LATER if attempt.body == b"never" else Delivered(status=200)
    )
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, b"never", *numbered(40))
        await world.plane.until(lambda: delivered(world, made.id) == 40)
    assert world.endpoints.bodies().count(b"never") <= 4 + 40


async def test_a_pause_is_kept_with_other_settings_but_not_with_another_endpoint(
    world: World,
) -> None:
    topic = await world.topic(partitions=1)
    made = await world.subscribe(topic, message_ttl=timedelta(hours=2))
    hour = Retry(reason="busy", status=503, retry_after=timedelta(hours=1))
    world.endpoints.replies[URL] = lambda _: hour
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, b"old")
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 1)
        known = world.plane.put(replace(made, description="other"))
        await world.plane.until_applied()
        assert len(world.endpoints.attempts) == 1
        world.plane.put(replace(known, endpoint="http://other.test/"))
        await world.publish(topic, b"new")
        await world.plane.until(lambda: delivered(world, made.id) == 2)
    assert sorted(world.endpoints.bodies()) == [b"new", b"old", b"old"]


async def test_a_subscriber_that_takes_few_and_puts_off_the_others_loses_none() -> None:
    taken_at = float("-inf")

    def reply(_: Received) -> Reply:
        nonlocal taken_at
        if time.monotonic() < taken_at + 0.5:
            return Reply(status=503, headers={"Retry-After": "1"})
        taken_at = time.monotonic()
        return Reply()

    async with Subscriber(reply) as subscriber, Sender(egress=LOOPBACK) as sender:
        world = World(sender=sender)
        topic = await world.topic(partitions=1)
        ttl = timedelta(seconds=60)
        made = await world.subscribe(
            topic, endpoint=subscriber.url, rate=400, adaptive_rate=True, message_ttl=ttl
        )
        async with world.worker():
            await world.plane.until_applied()
            await world.publish(topic, *numbered(30))
            await subscriber.wait_until(lambda: len(set(subscriber.message_ids)) >= 12)
            load = world.plane.loads[made.id]
    # Each is tried again until it is taken, before others are opened.
    tried = Counter(subscriber.message_ids)
    assert sum(count > 1 for count in tried.values()) <= 8
    assert world.plane.undelivered == []
    assert delivered(world, made.id) >= 10
    assert load.waiting_retries <= 2
