"""A whole worker on a log in memory: undelivered messages say why the last attempt failed."""

from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from app.domain.catalogue.dead_letter import DeadLetter
from app.domain.catalogue.subscription import OnExhausted
from app.domain.catalogue.topic import Topic
from app.domain.delivery import (
    BUFFER_FULL,
    RETRIES_EXHAUSTED,
    ROOM_NEEDED,
    TTL_ELAPSED,
    Delivered,
    Discarded,
    Outcome,
    Retry,
    status_reason,
)
from app.domain.discards.undelivered import Undelivered
from app.domain.message import Message, Partition
from tests.fakes.worker import Attempt, World
from tests.integration.worker.batching import LATE, SOON, URL, numbers, subscribed

HUNG = "No complete answer within 1000 ms"
CUT = "Connection error: the connection was closed"


@pytest.fixture
def world() -> World:
    return World()


def hangs(attempt: Attempt) -> Outcome:
    return Delivered(status=200) if attempt.body == b"good" else Retry(reason=HUNG)


async def given_up(
    world: World, topic: Topic, *bodies: bytes, count: int = 1
) -> Collection[Undelivered]:
    """Publish the messages, and return those that the worker gives up."""
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *bodies)
        await world.plane.until(lambda: len(world.plane.undelivered) == count)
    return world.plane.undelivered


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        ({"max_retries": 2}, RETRIES_EXHAUSTED),
        ({"message_ttl": timedelta(milliseconds=20)}, TTL_ELAPSED),
        ({"message_ttl": timedelta(seconds=0.3), "rate": 1}, TTL_ELAPSED),
    ],
    ids=["retries", "time", "time-behind-the-rate"],
)
async def test_a_message_without_an_answer_says_why(
    world: World, policy: dict[str, Any], reason: str
) -> None:
    topic = await world.topic(partitions=1)
    await world.subscribe(topic, message_backoff=SOON, **policy)
    world.endpoints.replies[URL] = hangs
    [found] = await given_up(world, topic, b"1")
    assert (found.reason, found.status, found.last_failure) == (reason, None, HUNG)


@pytest.mark.parametrize(
    ("action", "policy", "body", "reason"),
    [
        (OnExhausted.DISCARD, {}, b"2", BUFFER_FULL),
        (OnExhausted.DISCARD_OLDEST, {}, b"1", BUFFER_FULL),
        (OnExhausted.WAIT, {"exhausted_wait_max": timedelta(seconds=1)}, b"1", ROOM_NEEDED),
    ],
)
async def test_a_message_without_room_to_wait_says_why_it_failed(
    world: World, action: OnExhausted, policy: dict[str, Any], body: bytes, reason: str
) -> None:
    settings = {"in_flight_max": 1, "retry_buffer_max": 1, "message_backoff": LATE, **policy}
    topic = await world.topic(partitions=1)
    await world.subscribe(topic, on_exhausted=action, **settings)
    world.endpoints.replies[URL] = hangs
    [found] = await given_up(world, topic, b"1", b"2", b"good")
    assert (found.body, found.reason, found.last_failure) == (body, reason, HUNG)


async def test_each_message_of_a_batch_says_it(world: World) -> None:
    topic = await world.topic(partitions=1)
    await subscribed(world, topic, batch_size=2, max_retries=1)
    world.endpoints.replies[URL] = hangs
    found = await given_up(world, topic, *numbers(2), count=2)
    assert [each.last_failure for each in found] == [HUNG, HUNG]


@pytest.mark.parametrize(
    ("outcomes", "said"),
    [
        ([Retry(reason=CUT), Retry(reason=status_reason(503), status=503)], (503, "")),
        ([Retry(reason=status_reason(503), status=503), Retry(reason=CUT)], (None, CUT)),
        ([Retry(reason=CUT), Discarded(reason=status_reason(404), status=404)], (404, "")),
        # Nothing was sent in the last one, so the failure before it counts.
        ([Retry(reason=CUT), Retry(reason="late", unsent=True), Retry(reason=HUNG)], (None, HUNG)),
    ],
)
async def test_only_the_last_attempt_counts(
    world: World, outcomes: list[Outcome], said: tuple[int | None, str]
) -> None:
    topic = await world.topic(partitions=1)
    await world.subscribe(topic, message_backoff=SOON, max_retries=1)
    left = iter(outcomes)
    world.endpoints.replies[URL] = lambda _: next(left)
    [found] = await given_up(world, topic, b"1")
    assert (found.status, found.last_failure) == said


async def test_a_dead_letter_says_it(world: World) -> None:
    topic, dead = await world.topic(partitions=1), await world.topic("shop.dead", 1)
    made = await world.subscribe(topic, message_backoff=SOON, max_retries=1)
    world.plane.put(replace(made, dead_letter=DeadLetter(topic=dead.name)))
    world.endpoints.replies[URL] = hangs
    await given_up(world, topic, b"1")
    [letter] = world.memory.records(dead.name)
    propagated = dict(Message(letter, Partition(dead.name, 0)).propagated)
    assert propagated[b"Angelia-Dead-Letter-Last-Failure"] == HUNG.encode()
