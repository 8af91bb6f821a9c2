"""A whole worker on a log in memory: when it stops trying, for a message or a subscription."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from app.domain.catalogue.subscription import State, Subscription
from app.domain.delivery import GONE, TTL_ELAPSED, Delivered, Discarded, Outcome, Retry
from app.domain.errors import LogUnavailableError
from app.domain.message import NewRecord, Partition
from app.domain.status import FailedAttempt
from app.log.interface import Committed
from tests.fakes.memory_log import MemoryLog
from tests.fakes.worker import Attempt, World, delivered, still_retried

ENDPOINT = "http://s.test/"


@pytest.fixture
def world() -> World:
    return World()


def gone(_: Attempt) -> Outcome:
    return Discarded(reason="gone", status=410, suspension=GONE)


def refused(_: Attempt) -> Outcome:
    return Retry(reason="refused", status=500)


def stored(world: World, subscription: Subscription) -> Subscription:
    return world.plane.subscriptions[subscription.id]


async def test_an_endpoint_that_is_gone_suspends_its_subscription_and_says_why(
    world: World,
) -> None:
    topic = await world.topic(partitions=1)
    subscription = await world.subscribe(topic, in_flight_max=1)
    world.endpoints.replies[ENDPOINT] = gone
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, b"1", b"2", b"3")
        await world.plane.until(lambda: stored(world, subscription).state is State.SUSPENDED)
        await world.plane.until(lambda: len(world.plane.undelivered) == 1)
        await world.plane.until_applied()
    assert stored(world, subscription).state_reason == "The endpoint answered 410 Gone"
    assert world.endpoints.bodies() == [b"1"]
    assert [each.body for each in world.plane.undelivered] == [b"1"]


async def test_what_came_after_a_suspension_is_delivered_when_it_is_resumed(world: World) -> None:
    topic = await world.topic(partitions=1)
    subscription = await world.subscribe(topic, in_flight_max=1)
    world.endpoints.replies[ENDPOINT] = gone
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, b"1", b"2", b"3")
        await world.plane.until(lambda: stored(world, subscription).state is State.SUSPENDED)
        del world.endpoints.replies[ENDPOINT]
        resumed = world.plane.put(stored(world, subscription).in_state(State.ACTIVE))
        await world.plane.until(lambda: delivered(world, subscription.id) == 2)
    assert resumed.state_reason == ""
    assert world.endpoints.bodies() == [b"1", b"2", b"3"]


async def test_nothing_more_is_sent_while_the_suspension_cannot_be_stored(world: World) -> None:
    topic = await world.topic(partitions=1)
    subscription = await world.subscribe(topic, in_flight_max=1)
    other = await world.subscribe(topic, "other")
    world.endpoints.replies[ENDPOINT] = gone
    async with world.worker():
        await world.plane.until_applied()
        world.plane.down = True
        await world.publish(topic, b"1", b"2", b"3")
        await world.endpoints.until(lambda: len(world.endpoints.bodies("http://other.test/")) == 3)
        assert stored(world, subscription).state is State.ACTIVE
        world.plane.down = False
        await world.plane.until(lambda: stored(world, subscription).state is State.SUSPENDED)
        await world.plane.until(lambda: delivered(world, other.id) == 3)
    assert world.endpoints.bodies(ENDPOINT) == [b"1"]


async def test_a_change_by_the_owner_overtakes_a_suspension(world: World) -> None:
    topic = await world.topic(partitions=1)
    subscription = await world.subscribe(topic, in_flight_max=1)
    world.endpoints.replies[ENDPOINT] = gone
    async with world.worker():
        await world.plane.until_applied()
        world.plane.down = True
        await world.publish(topic, b"1", b"2")
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 1)
        world.plane.put(replace(subscription, endpoint="http://moved.test/"))
        world.plane.down = False
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 2)
        await world.plane.until(lambda: delivered(world, subscription.id) == 1)
    assert world.endpoints.bodies("http://moved.test/") == [b"2"]
    assert stored(world, subscription).state is State.ACTIVE


async def test_an_answer_to_former_settings_suspends_nothing(world: World) -> None:
    topic = await world.topic(partitions=1)
    subscription = await world.subscribe(topic, in_flight_max=1)
    world.endpoints.replies[ENDPOINT] = gone
    world.endpoints.gate.clear()
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, b"1", b"2")
        await world.endpoints.until(lambda: world.endpoints.in_flight == 1)
        world.plane.put(replace(subscription, endpoint="http://moved.test/"))
        await world.plane.until_applied()
        world.endpoints.gate.set()
        await world.plane.until(lambda: delivered(world, subscription.id) == 1)
    assert world.endpoints.bodies() == [b"1", b"2"]
    assert stored(world, subscription).state is State.ACTIVE


async def test_messages_that_failed_last_are_reported_until_they_are_finished(
    world: World,
) -> None:
    topic = await world.topic(partitions=1)
    soon = timedelta(milliseconds=1)
    subscription = await world.subscribe(topic, message_backoff=soon)
    busy = Retry(reason="busy", status=503, answer="wait")
    world.endpoints.replies[ENDPOINT] = lambda _: busy

    def all_are_retried() -> bool:
        again = [each.body for each in world.endpoints.attempts if each.retry_count]
        return set(again) == {b"1", b"2", b"3", b"4"}

    def failing() -> Sequence[FailedAttempt]:
        return still_retried(world, subscription.id)

    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, b"1", b"2", b"3", b"4")
        await world.endpoints.until(all_are_retried)
        world.plane.loads.clear()
        await world.plane.until(lambda: len(failing()) >= 3)
        assert len({each.message_id for each in failing()}) == len(failing()) == 3
        newest, *_, oldest = failing()
        assert newest.at >= oldest.at
        assert newest.attempts >= 1
        assert (newest.reason, newest.status, newest.answer) == ("busy", 503, "wait")
        del world.endpoints.replies[ENDPOINT]
        await world.plane.until(lambda: delivered(world, subscription.id) == 4)
        await world.plane.until(lambda: not failing())


class Stubborn(MemoryLog):
    """A log that so often does not take a commit that says that something was discarded."""

    def __init__(self, refusals: int) -> None:
        super().__init__()
        self.refusals = refusals

    async def commit(
        self, offsets: Mapping[str, Mapping[Partition, Committed]]
    ) -> Mapping[tuple[str, Partition], str]:
        says_so = any(" x=" in each.metadata for mine in offsets.values() for each in mine.values())
        if says_so and self.refusals:
            self.refusals -= 1
            raise LogUnavailableError("the log takes no commit")
        return await super().commit(offsets)


def discarded(world: World, subscription: Subscription) -> int:
    statuses = world.plane.statuses.items()
    return sum(status.discarded for (i, _), status in statuses if i == subscription.id)


# The second of it longer than the commit of a partition that is handed over may take.
@pytest.mark.parametrize("refusals", [1, 30])
async def test_the_count_of_what_410_discarded_is_told_although_commits_fail(refusals: int) -> None:
    log = Stubborn(refusals)
    world = World(log=log)
    world.memory = log
    topic = await world.topic(partitions=1)
    subscription = await world.subscribe(topic, in_flight_max=3)
    world.endpoints.replies[ENDPOINT] = gone
    world.endpoints.gate.clear()
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, b"1", b"2", b"3")
        await world.endpoints.until(lambda: world.endpoints.in_flight == 3)
        world.endpoints.gate.set()
        await world.plane.until(lambda: len(world.plane.undelivered) == 3)
        await world.plane.until(lambda: discarded(world, subscription) == 3)
    assert log.refusals == 0


async def test_a_worker_that_stops_repeats_its_last_commit() -> None:
    log = Stubborn(25)
    world = World(log=log)
    world.memory = log
    topic = await world.topic(partitions=1)
    subscription = await world.subscribe(topic)
    world.endpoints.replies[ENDPOINT] = lambda _: Discarded(reason="bad", status=400)
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, b"1", b"2", b"3")
        await world.plane.until(lambda: len(world.plane.undelivered) == 3)
    assert discarded(world, subscription) == 3


async def test_a_subscription_that_is_deleted_meanwhile_is_committed_no_more() -> None:
    log = Stubborn(1_000_000)
    world = World(log=log)
    world.memory = log
    topic = await world.topic(partitions=1)
    subscription = await world.subscribe(topic, in_flight_max=1)
    other = await world.subscribe(topic, "other")
    world.endpoints.replies[ENDPOINT] = gone
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, b"1")
        await world.plane.until(lambda: stored(world, subscription).state is State.SUSPENDED)
        await world.plane.until(lambda: len(world.plane.undelivered) == 1)
        world.plane.delete(subscription)
        await world.plane.until_applied()
        left = log.refusals
        # Each in a round of commits of its own.
        for count in range(2, 6):
            await world.publish(topic, b"more")
            await world.plane.until(lambda count=count: delivered(world, other.id) == count)  # type: ignore[misc]  # bound in the loop
    assert log.refusals >= left - 1


@pytest.mark.parametrize("retries", [0, 2])
async def test_a_message_is_not_retried_more_often_than_allowed(world: World, retries: int) -> None:
    topic = await world.topic()
    await world.subscribe(topic, max_retries=retries, message_backoff=timedelta(milliseconds=1))
    world.endpoints.replies[ENDPOINT] = refused
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, b"x")
        await world.plane.until(lambda: bool(world.plane.undelivered))
    [discarded] = world.plane.undelivered
    assert len(world.endpoints.attempts) == discarded.attempts == retries + 1
    assert (discarded.reason, discarded.status) == ("Maximum number of retries reached", 500)


async def test_the_first_retry_may_come_without_delay(world: World) -> None:
    topic = await world.topic()
    hours = timedelta(seconds=600)
    await world.subscribe(topic, first_retry_immediate=True, message_backoff=hours)
    world.endpoints.replies[ENDPOINT] = lambda attempt: (
        Delivered(status=200) if attempt.retry_count else refused(attempt)
    )
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, b"x")
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 2)


async def test_a_message_that_was_published_too_long_ago_is_not_tried(world: World) -> None:
    topic = await world.topic(partitions=1)
    await world.subscribe(topic, publish_ttl=timedelta(seconds=60))
    now_ms = time.time_ns() // 1_000_000
    old, new = [
        NewRecord(value=body, timestamp_ms=now_ms - age_s * 1_000)
        for body, age_s in ((b"old", 61), (b"new", 50))
    ]
    async with world.worker():
        await world.plane.until_applied()
        await world.log.append(topic.name, [old, new])
        await world.plane.until(lambda: bool(world.plane.undelivered))
        await world.endpoints.until(lambda: bool(world.endpoints.attempts))
    [discarded] = world.plane.undelivered
    assert (discarded.body, discarded.attempts) == (b"old", 0)
    assert discarded.reason == "Older than publishTtl before the first attempt"
    assert world.endpoints.bodies() == [b"new"]


async def test_a_retry_that_was_held_back_until_its_ttl_ended_is_not_sent(world: World) -> None:
    topic = await world.topic(partitions=1)
    await world.subscribe(
        topic, message_ttl=timedelta(seconds=0.5), message_backoff=timedelta(seconds=0.3)
    )
    quiet = timedelta(seconds=0.6)

    def reply(attempt: Attempt) -> Outcome:
        if attempt.body == b"fails":
            return refused(attempt)
        return Retry(reason="busy", status=503, retry_after=quiet)

    world.endpoints.replies[ENDPOINT] = reply
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, b"fails", b"wants quiet")
        await world.plane.until(lambda: len(world.plane.undelivered) == 2)
    assert {(each.body, each.reason, each.status) for each in world.plane.undelivered} == {
        (b"fails", TTL_ELAPSED, 500),
        (b"wants quiet", TTL_ELAPSED, 503),
    }
    assert len(world.endpoints.attempts) == 2
