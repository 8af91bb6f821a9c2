"""A worker with filters, on a log in memory."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

import pytest

from app.domain.catalogue.filters import Filter, FilterType
from app.domain.catalogue.subscription import Subscription
from app.domain.catalogue.topic import Topic
from app.domain.delivery import Delivered, Outcome, Retry
from app.filtering.budget import WORK_MAX
from tests.fakes.worker import Attempt, World, delivered
from tests.integration.worker.tracing import entries_of, tracked, until_traced

QUIET = timedelta(minutes=1)


@pytest.fixture
def world() -> World:
    return World()


def numbers(numbers: Iterable[int], kind: str = "wanted") -> list[bytes]:
    return [b'{"kind":"%s","n":%d}' % (kind.encode(), number) for number in numbers]


def of_kind(kind: str) -> tuple[Filter, ...]:
    return (Filter(type=FilterType.JSONPATH, path="$.kind", matcher=kind),)


async def subscribed(world: World, topic: Topic, name: str = "s") -> Subscription:
    made = await world.subscribe(topic, name)
    return world.plane.put(replace(made, filters=of_kind("wanted")))


def filtered(world: World, subscription: Subscription) -> int:
    return sum(s.filtered for (i, _), s in world.plane.statuses.items() if i == subscription.id)


def quiet_at_first(world: World, quiet: timedelta = QUIET) -> None:
    """The first attempt asks for quiet."""

    def reply(_: Attempt) -> Outcome:
        if len(world.endpoints.attempts) == 1:
            return Retry(reason="busy", status=503, retry_after=quiet)
        return Delivered(status=200)

    world.endpoints.replies["http://s.test/"] = reply


async def test_what_is_filtered_out_is_not_sent_but_counted_and_committed(world: World) -> None:
    topic = await world.topic()
    picky, other = await subscribed(world, topic, "picky"), await world.subscribe(topic, "other")
    everything = numbers(range(50)) + numbers(range(50), "other") + [b"not json", b""]
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *everything)
        await world.plane.until(lambda: filtered(world, picky) == 52)
        await world.plane.until(lambda: delivered(world, picky.id) == 50)
        await world.plane.until(lambda: delivered(world, other.id) == len(everything))
    assert Counter(world.endpoints.bodies("http://picky.test/")) == Counter(numbers(range(50)))
    committed = world.memory.commits[picky.group].values()
    assert sum(commit.offset for commit in committed) == len(everything)


async def test_filtering_waits_for_no_rate(world: World) -> None:
    topic = await world.topic(partitions=1)
    subscription = await subscribed(world, topic)
    quiet_at_first(world)
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbers([0]))
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 1)
        await world.publish(topic, *numbers(range(3_000), "other"))
        await world.plane.until(lambda: filtered(world, subscription) == 3_000)
    assert len(world.endpoints.attempts) == 1


async def test_what_passed_and_waits_for_the_rate_is_not_lost_when_the_worker_stops(
    world: World,
) -> None:
    topic = await world.topic(partitions=1)
    subscription = await subscribed(world, topic)
    quiet_at_first(world)
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbers([0]))
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 1)
        await world.publish(topic, *numbers([1], "other"), *numbers([2]), *numbers([3], "other"))
        await world.plane.until(lambda: filtered(world, subscription) == 1)
    async with world.worker("w2"):
        await world.plane.until(lambda: delivered(world, subscription.id) == 2)
        await world.plane.until(lambda: filtered(world, subscription) == 2)
    assert world.endpoints.bodies() == numbers([0, 0, 2])


async def test_what_waits_for_the_rate_waits_for_a_suspended_subscription_too(
    world: World,
) -> None:
    topic = await world.topic(partitions=1)
    subscription = await subscribed(world, topic)
    quiet_at_first(world, timedelta(milliseconds=500))
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbers([0]))
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 1)
        await world.publish(topic, *numbers([1], "other"), *numbers([2]))
        await world.plane.until(lambda: filtered(world, subscription) == 1)
        suspended = world.suspend(subscription)
        await world.plane.until_applied()
        world.resume(suspended)
        await world.plane.until(lambda: delivered(world, subscription.id) == 2)
    assert Counter(world.endpoints.bodies()) == Counter(numbers([0, 0, 2]))


async def test_changed_filters_hold_for_what_comes_next(world: World) -> None:
    topic = await world.topic(partitions=1)
    subscription = await subscribed(world, topic)
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbers([0], "other"))
        await world.plane.until(lambda: filtered(world, subscription) == 1)
        world.plane.put(replace(subscription, filters=of_kind("other")))
        await world.plane.until_applied()
        await world.publish(topic, *numbers([1], "other"), *numbers([2]))
        await world.plane.until(lambda: filtered(world, subscription) == 2)
        await world.plane.until(lambda: delivered(world, subscription.id) == 1)
    assert world.endpoints.bodies() == numbers([1], "other")


async def test_expressions_over_headers_key_and_body_filter_for_each_subscription(
    world: World,
) -> None:
    topic = await world.topic(partitions=1)
    wants = {"small": "body.n < 2", "keyed": "key == ''", "both": "body.n > 0 && body.n <= 2"}
    for name, expression in wants.items():
        made = await world.subscribe(topic, name)
        only = Filter(type=FilterType.CEL, expression=expression)
        world.plane.put(replace(made, filters=(only,)))
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbers(range(4)), b"not json")
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 2 + 5 + 2)
    assert set(world.endpoints.bodies("http://small.test/")) == set(numbers([0, 1]))
    assert set(world.endpoints.bodies("http://both.test/")) == set(numbers([1, 2]))
    assert b"not json" in world.endpoints.bodies("http://keyed.test/")


async def test_a_filter_that_cannot_be_compiled_any_more_stops_no_other_subscription(
    world: World,
) -> None:
    topic = await world.topic(partitions=1)
    broken = await world.subscribe(topic, "broken")
    unusable = Filter(type=FilterType.JSONPATH, path="$.kind", matcher="(")
    world.plane.put(replace(broken, filters=(unusable,)))
    other = await world.subscribe(topic, "other")
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbers([0]))
        await world.plane.until(lambda: delivered(world, other.id) == 1)
        await world.plane.until(lambda: filtered(world, broken) == 1)


async def test_traces_say_why_a_message_could_not_be_judged(world: World) -> None:
    topic = await world.topic(partitions=1)
    below = Filter(type=FilterType.JSONPATH, path="$..kind", matcher="wanted")
    tracked(world, replace(await subscribed(world, topic), filters=(below,)))
    heavy = b'{"kind":[' + b"[]," * 16_000 + b"0]}"
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, b"not json", heavy, *numbers([1], "other"))
        await until_traced(world, *["FILTERED"] * 3)
    reasons = {each.offset: each.reason for each in entries_of(world.plane.traces)}
    assert reasons[0].startswith("the body is not JSON")
    assert reasons[1] == f"the message takes more than {WORK_MAX} steps of work to look at"
    assert not reasons[2]
