"""How fast a whole worker sends to one subscription."""

from datetime import timedelta

import pytest

from app.domain.delivery import Delivered, Outcome, Retry
from app.domain.status import RateMode
from tests.fakes.worker import Attempt, World, delivered
from workers.delivery.adaptive import START


@pytest.fixture
def world() -> World:
    return World()


def mode(world: World) -> RateMode:
    (load,) = world.plane.loads.values()
    return load.output.mode


def rate(world: World) -> float:
    (load,) = world.plane.loads.values()
    return load.output.rate


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


async def test_a_new_subscription_is_not_hit_by_its_whole_limit_at_once(world: World) -> None:
    topic = await world.topic()
    await world.subscribe(topic, adaptive_rate=True)
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbered(100))
        await world.endpoints.until(lambda: len(world.endpoints.attempts) >= 50)
        # It doubles where nothing fails.
        await world.plane.until(lambda: rate(world) >= 2 * START)
    times = [attempt.at for attempt in world.endpoints.attempts]
    assert times[20] - times[0] > 0.9


async def test_messages_that_always_fail_slow_the_others_down_only_little(world: World) -> None:
    topic = await world.topic()
    subscription = await world.subscribe(
        topic, adaptive_rate=True, message_backoff=timedelta(milliseconds=5)
    )

    def answer(attempt: Attempt) -> Outcome:
        bad = attempt.body.startswith(b"bad")
        return Retry(reason="bad", status=500) if bad else Delivered(status=200)

    world.endpoints.replies[subscription.endpoint] = answer
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, b"bad 1", b"bad 2", *numbered(45))
        good = set(numbered(45))
        await world.endpoints.until(lambda: good <= set(world.endpoints.bodies()))
        assert mode(world) is RateMode.NORMAL
        # Their first failures cost a step.
        await world.plane.until(lambda: rate(world) >= 0.9 * START)
    tried = world.endpoints.bodies()
    # From then on a fifth of the requests are spent on the two.
    assert len(tried) - len(good) <= 2 + len(tried) / 5


async def test_a_subscriber_that_is_down_gets_one_probe_at_a_time_and_all_its_messages_later(
    world: World,
) -> None:
    topic = await world.topic()
    backoff = timedelta(milliseconds=5)
    subscription = await world.subscribe(topic, adaptive_rate=True, message_backoff=backoff)
    up = False

    def answer(_: Attempt) -> Outcome:
        return Delivered(status=200) if up else Retry(reason="down", status=500)

    world.endpoints.replies[subscription.endpoint] = answer
    attempts = world.endpoints.attempts
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbered(12))
        await world.endpoints.until(
            lambda: len(attempts) > 1 and attempts[-1].at - attempts[-2].at > 0.9
        )
        await world.plane.until(lambda: mode(world) is RateMode.HEARTBEAT)
        assert world.plane.loads[subscription.id].output.rate <= 1
        assert world.plane.loads[subscription.id].output.next_probe_at is not None
        up = True
        await world.plane.until(lambda: delivered(world, subscription.id) == 12)
    assert len(attempts) < 100
