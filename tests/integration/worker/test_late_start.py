"""A whole worker with requests that were not sent, because they had waited for a connection."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Final

import pytest

from app.domain.catalogue.subscription import OnExhausted, Ordering
from app.domain.delivery import Delivered, Outcome, Retry
from app.domain.status import RateMode
from tests.fakes.worker import Attempt, World, delivered
from tests.integration.worker import batching
from tests.integration.worker.test_circuit_breaker import opened
from tests.integration.worker.test_worker_rate import mode
from tests.integration.worker.tracing import statuses, tracked

URL: Final = "http://s.test/"
OK: Final = Delivered(status=200)
UNSENT: Final = Retry(reason="too late", blameless=True, unsent=True)
DOWN: Final = Retry(reason="it is down", status=500)


@pytest.fixture
def world() -> World:
    return World()


def at_first_unsent() -> Callable[[Attempt], Outcome]:
    """Answers that let no message be sent at its first start."""
    seen: Counter[bytes] = Counter()

    def answer(attempt: Attempt) -> Outcome:
        seen[attempt.body] += 1
        return UNSENT if seen[attempt.body] == 1 else OK

    return answer


@pytest.mark.parametrize("ordering", Ordering)
async def test_what_was_not_sent_is_no_attempt_and_is_sent_later(
    world: World, ordering: Ordering
) -> None:
    topic = await world.topic(partitions=1)
    made = await world.subscribe(
        topic, max_retries=0, retry_buffer_max=1, on_exhausted=OnExhausted.DISCARD
    )
    tracked(world, replace(made, ordering=ordering))
    world.endpoints.replies[URL] = at_first_unsent()
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, b"1", b"2", b"3", key=b"k")
        await world.plane.until(lambda: delivered(world, made.id) == 3)
        traced = Counter({"INFLIGHT": 3, "SUCCESS": 3})
        await world.plane.until(lambda: Counter(statuses(world)) == traced)
    assert sorted(world.endpoints.bodies()) == [b"1", b"1", b"2", b"2", b"3", b"3"]
    assert {attempt.retry_count for attempt in world.endpoints.attempts} == {0}
    assert world.plane.undelivered == []


async def test_a_batch_that_was_not_sent_is_sent_later_as_it_is(world: World) -> None:
    topic = await world.topic(partitions=2)
    made = await batching.subscribed(world, topic, batch_size=3, max_retries=0)
    world.endpoints.replies[URL] = at_first_unsent()
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *batching.numbers(6), key=b"k")
        await world.plane.until(lambda: delivered(world, made.id) == 6)
    assert sorted(batching.batches(world)) == [[0, 1, 2]] * 2 + [[3, 4, 5]] * 2


async def test_a_probe_of_a_subscriber_that_is_down_gives_its_place_back(world: World) -> None:
    topic = await world.topic()
    made = await world.subscribe(
        topic, adaptive_rate=True, message_backoff=timedelta(milliseconds=5)
    )
    outcomes: list[Outcome] = []

    def answer(_: Attempt) -> Outcome:
        return outcomes.pop(0) if outcomes else DOWN

    world.endpoints.replies[URL] = answer
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *(b"%d" % number for number in range(12)))
        await world.plane.until(lambda: made.id in world.plane.loads)
        await world.plane.until(lambda: mode(world) is RateMode.HEARTBEAT)
        outcomes += [UNSENT, *[OK] * 20]
        await world.plane.until(lambda: delivered(world, made.id) == 12)


async def test_a_probe_of_a_circuit_gives_its_place_back(world: World) -> None:
    async with opened(world) as (made, health):
        health.up = True
        outcomes: list[Outcome] = [UNSENT, UNSENT]
        world.endpoints.replies[URL] = lambda _: outcomes.pop(0) if outcomes else OK
        await world.plane.until(lambda: delivered(world, made.id) == 20)


async def test_a_probe_after_retry_after_gives_its_place_back(world: World) -> None:
    topic = await world.topic(partitions=1)
    made = await world.subscribe(topic, in_flight_max=1)
    later = Retry(reason="busy", status=503, retry_after=timedelta(milliseconds=5))
    outcomes: list[Outcome] = [later, UNSENT, UNSENT]
    world.endpoints.replies[URL] = lambda _: outcomes.pop(0) if outcomes else OK
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, b"1", b"2")
        await world.plane.until(lambda: delivered(world, made.id) == 2)
    assert world.endpoints.bodies() == [b"1"] * 4 + [b"2"]
