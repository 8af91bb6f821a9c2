"""A whole worker on a log in memory: what it delivers, and what it does when things change."""

import asyncio
from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest

from app.domain.catalogue.topic import Topic
from app.domain.delivery import TTL_ELAPSED, Delivered, Discarded, Outcome, Retry
from app.domain.message import Partition
from tests.fakes.replica import fail_over, replica_of
from tests.fakes.worker import Attempt, World, delivered


@pytest.fixture
def world() -> World:
    return World()


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


def asks_at_first_for(quiet: timedelta, world: World) -> None:
    """Let the subscriber refuse its first attempt, and ask to be left alone for so long."""

    def first_refused(_: Attempt) -> Outcome:
        if len(world.endpoints.attempts) == 1:
            return Retry(reason="busy", status=503, retry_after=quiet)
        return Delivered(status=200)

    world.endpoints.replies["http://s.test/"] = first_refused


async def test_every_subscription_gets_every_message_once(world: World) -> None:
    topic = await world.topic()
    for name in ("a", "b", "c"):
        await world.subscribe(topic, name)
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbered(50))
        await world.endpoints.until(lambda: len(world.endpoints.attempts) >= 150)
    for name in ("a", "b", "c"):
        assert Counter(world.endpoints.bodies(f"http://{name}.test/")) == Counter(numbered(50))


async def test_a_topic_is_read_once_however_many_subscribe(world: World) -> None:
    topic = await world.topic(partitions=1)
    for number in range(20):
        await world.subscribe(topic, f"s{number}")
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbered(100))
        await world.endpoints.until(lambda: len(world.endpoints.attempts) >= 2_000)
    assert world.log.stats.fetched_records == 100


async def test_a_new_subscription_gets_what_is_published_after_it_and_nothing_before(
    world: World,
) -> None:
    topic = await world.topic()
    await world.publish(topic, b"before")
    async with world.worker():
        await world.plane.until_applied()
        await world.subscribe(topic)
        await world.publish(topic, b"after")
        await world.endpoints.until(lambda: bool(world.endpoints.attempts))
    assert world.endpoints.bodies() == [b"after"]


async def test_no_more_requests_are_in_the_air_than_allowed(world: World) -> None:
    topic = await world.topic()
    await world.subscribe(topic, in_flight_max=7)
    world.endpoints.gate.clear()
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbered(60))
        await world.endpoints.until(lambda: world.endpoints.in_flight == 7)
        world.endpoints.gate.set()
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 60)
    assert world.endpoints.in_flight_peak == 7


async def test_a_failed_attempt_is_repeated_until_it_is_delivered(world: World) -> None:
    topic = await world.topic()
    await world.subscribe(topic, message_backoff=timedelta(milliseconds=5))

    def third_time_lucky(attempt: Attempt) -> Outcome:
        return Delivered(status=200) if attempt.retry_count == 2 else Retry(reason="no", status=500)

    world.endpoints.replies["http://s.test/"] = third_time_lucky
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, b"x")
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 3)
    assert [a.retry_count for a in world.endpoints.attempts] == [0, 1, 2]


async def test_retry_after_holds_back_the_whole_subscription(world: World) -> None:
    topic = await world.topic()
    await world.subscribe(topic, in_flight_max=1)
    quiet = timedelta(milliseconds=150)
    asks_at_first_for(quiet, world)
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbered(3))
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 4)
    first, *later = [a.at for a in world.endpoints.attempts]
    assert min(later) - first >= quiet.total_seconds()


async def test_a_retry_that_would_come_after_the_ttl_is_discarded_at_once(world: World) -> None:
    topic = await world.topic()
    await world.subscribe(topic, message_ttl=timedelta(seconds=1))
    world.endpoints.replies["http://s.test/"] = lambda _: Retry(
        reason="busy", status=503, retry_after=timedelta(seconds=60)
    )
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, b"late")
        await world.plane.until(lambda: bool(world.plane.undelivered))
    (undelivered,) = world.plane.undelivered
    assert (undelivered.body, undelivered.reason) == (b"late", TTL_ELAPSED)
    assert (undelivered.status, undelivered.attempts) == (503, 1)


async def test_a_discard_closes_only_when_it_is_durable(world: World) -> None:
    topic = await world.topic(partitions=1)
    subscription = await world.subscribe(topic)
    world.endpoints.replies["http://s.test/"] = lambda _: Discarded(reason="bad", status=400)
    async with world.doomed_worker():
        await world.plane.until_applied()
        await world.publish(topic, b"bad")
        world.endpoints.gate.clear()
        await world.endpoints.until(lambda: world.endpoints.in_flight == 1)
        world.memory.go_down()
        world.endpoints.gate.set()
        await world.endpoints.until(lambda: world.endpoints.in_flight == 0)
    world.memory.come_back()
    assert world.memory.records("angelia.undelivered") == []
    async with world.worker("w2"):
        await world.plane.until(lambda: bool(world.plane.undelivered))
        assert [a.body for a in world.endpoints.attempts] == [b"bad", b"bad"]
    assert committed(world, subscription.group) == 1


def committed(world: World, group: str) -> int:
    return sum(commit.offset for commit in world.memory.commits.get(group, {}).values())


async def test_after_an_orderly_stop_nothing_is_sent_again(world: World) -> None:
    topic = await world.topic()
    await world.subscribe(topic)
    async with world.worker("w1"):
        await world.plane.until_applied()
        await world.publish(topic, *numbered(30))
        await world.endpoints.until(lambda: len(world.endpoints.attempts) >= 10)
    sent = len(world.endpoints.attempts)
    async with world.worker("w2"):
        await world.endpoints.until(lambda: len(world.endpoints.attempts) >= 30)
    assert sent <= 30
    assert Counter(world.endpoints.bodies()) == Counter(numbered(30))


async def test_after_a_crash_only_what_was_not_committed_is_sent_again(world: World) -> None:
    topic = await world.topic(partitions=1)
    subscription = await world.subscribe(topic)
    held = b"0"
    world.endpoints.replies["http://s.test/"] = lambda attempt: (
        Retry(reason="no") if attempt.body == held else Delivered(status=200)
    )
    async with world.doomed_worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbered(20))
        await world.plane.until(lambda: delivered(world, subscription.id) == 19)
    world.endpoints.attempts.clear()
    world.endpoints.replies.clear()
    async with world.worker("w2"):
        await world.endpoints.until(lambda: bool(world.endpoints.attempts))
        await world.plane.until(lambda: delivered(world, subscription.id) == 20)
    assert world.endpoints.bodies() == [held]


async def test_nothing_is_sent_after_a_suspension_is_applied_and_all_after_a_resumption(
    world: World,
) -> None:
    topic = await world.topic()
    subscription = await world.subscribe(topic)
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbered(10))
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 10)
        suspended = world.suspend(subscription)
        await world.plane.until_applied()
        await world.publish(topic, *numbered(10, start=10))
        assert len(world.endpoints.attempts) == 10
        world.resume(suspended)
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 20)
    assert Counter(world.endpoints.bodies()) == Counter(numbered(20))


async def test_a_subscription_made_anew_under_its_old_name_starts_afresh(world: World) -> None:
    topic = await world.topic(partitions=1)
    old = await world.subscribe(topic)
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, b"old")
        await world.plane.until(lambda: delivered(world, old.id) == 1)
        world.plane.delete(old)
        await world.publish(topic, b"between")
        new = await world.subscribe(topic)
        await world.publish(topic, b"new")
        await world.plane.until(lambda: delivered(world, new.id) == 1)
    assert world.endpoints.bodies() == [b"old", b"new"]


async def test_a_changed_endpoint_is_used_for_what_comes_next(world: World) -> None:
    topic = await world.topic()
    subscription = await world.subscribe(topic)
    async with world.worker():
        await world.plane.until_applied()
        world.plane.put(replace(subscription, endpoint="http://moved.test/"))
        await world.plane.until_applied()
        await world.publish(topic, b"x")
        await world.endpoints.until(lambda: bool(world.endpoints.attempts))
    assert world.endpoints.attempts[0].endpoint == "http://moved.test/"


async def test_two_workers_share_the_partitions_and_nothing_is_sent_twice(world: World) -> None:
    topic = await world.topic(partitions=8)
    await world.subscribe(topic)
    async with world.worker("w1"):
        await world.plane.until_applied()
        await world.publish(topic, *numbered(100))
        async with world.worker("w2"):
            await world.plane.until(lambda: owners(world, topic) == {"w1", "w2"})
            await world.publish(topic, *numbered(100, start=100))
            await world.endpoints.until(lambda: len(world.endpoints.attempts) >= 200)
    assert Counter(world.endpoints.bodies()) == Counter(numbered(200))


def owners(world: World, topic: Topic) -> set[str | None]:
    return {world.memory.owner(Partition(topic.name, n)) for n in range(topic.partitions)}


async def test_the_survivor_takes_over_from_a_dead_worker(world: World) -> None:
    topic = await world.topic(partitions=8)
    await world.subscribe(topic)
    async with world.worker("w1"):
        await world.plane.until_applied()
        async with world.doomed_worker("w2"):
            await world.plane.until(lambda: len(world.plane.beats) == 2)
        await world.publish(topic, *numbered(80))
        await world.endpoints.until(lambda: set(world.endpoints.bodies()) == set(numbered(80)))


async def test_delivery_goes_on_while_the_database_is_down(world: World) -> None:
    topic = await world.topic()
    subscription = await world.subscribe(topic)
    async with world.worker():
        await world.plane.until_applied()
        world.plane.down = True
        await world.publish(topic, *numbered(20))
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 20)
        world.plane.down = False
        await world.plane.until(lambda: delivered(world, subscription.id) == 20)


async def test_a_worker_delivers_what_the_new_server_of_the_database_has(world: World) -> None:
    """The new server is a replica that was behind. It gives the lost number to another change."""
    topic = await world.topic(partitions=1)
    kept = await world.subscribe(topic, "kept")
    async with world.worker():
        await world.publish(topic, b"0")
        await world.plane.until(lambda: delivered(world, kept.id) == 1)
        replica = replica_of(world.plane)
        await world.subscribe(topic, "lost")
        await world.plane.until_applied()
        fail_over(world.plane, replica)
        other = await world.subscribe(topic, "other")
        await world.plane.until_applied()
        await world.publish(topic, b"1")
        await world.plane.until(lambda: delivered(world, kept.id) == 2)
        await world.plane.until(lambda: delivered(world, other.id) == 1)
    taken = [(each.endpoint, each.body) for each in world.endpoints.attempts]
    assert sorted(taken) == [
        ("http://kept.test/", b"0"),
        ("http://kept.test/", b"1"),
        ("http://other.test/", b"1"),
    ]


async def test_delivery_goes_on_when_the_log_comes_back(world: World) -> None:
    topic = await world.topic()
    await world.subscribe(topic)
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, b"1")
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 1)
        world.memory.go_down()
        await asyncio.sleep(0)
        world.memory.come_back()
        await world.publish(topic, b"2")
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 2)


async def test_a_failed_commit_is_tried_again(world: World) -> None:
    topic = await world.topic(partitions=1)
    subscription = await world.subscribe(topic)
    world.memory.failing_commits[subscription.group] = "not now"
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, b"1")
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 1)
        world.memory.failing_commits.clear()
        await world.plane.until(lambda: committed(world, subscription.group) == 1)


async def test_a_laggard_catches_up_from_where_it_stopped(world: World) -> None:
    topic = await world.topic(partitions=1)
    live, late = await world.subscribe(topic, "live"), await world.subscribe(topic, "late")
    async with world.worker():
        await world.plane.until_applied()
        suspended = world.suspend(late)
        await world.plane.until_applied()
        big = [b"%d " % number + b"." * 10_000 for number in range(1_000)]
        await world.publish(topic, *big)
        await world.plane.until(lambda: delivered(world, live.id) == 1_000)
        world.resume(suspended)
        await world.plane.until(lambda: delivered(world, late.id) == 1_000)
    assert Counter(world.endpoints.bodies("http://late.test/")) == Counter(big)


async def test_what_retention_took_is_passed_over(world: World) -> None:
    topic = await world.topic(partitions=1)
    subscription = await world.subscribe(topic)
    await world.publish(topic, *numbered(10))
    world.memory.trim(Partition(topic.name, 0), 6)
    async with world.worker():
        await world.plane.until(lambda: delivered(world, subscription.id) == 4)
    assert world.endpoints.bodies() == numbered(4, start=6)


async def test_the_rate_is_shared_by_owned_partitions(world: World) -> None:
    topic = await world.topic(partitions=4)
    await world.subscribe(topic, rate=20)
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbered(30))
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 30)
    times = [a.at for a in world.endpoints.attempts]
    # The limiter is exact; here a request leaves a little after it was counted.
    assert all(later - earlier > 0.95 for earlier, later in zip(times, times[20:], strict=False))


async def test_a_resumption_does_not_forget_what_left_in_the_last_second(world: World) -> None:
    topic = await world.topic(partitions=1)
    subscription = await world.subscribe(topic, rate=20)
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, *numbered(40))
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 15)
        suspended = world.suspend(subscription)
        await world.plane.until_applied()
        world.resume(suspended)
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 40)
    times = [a.at for a in world.endpoints.attempts]
    assert all(later - earlier > 0.95 for earlier, later in zip(times, times[20:], strict=False))


async def test_a_resumption_keeps_the_quiet_that_was_asked_for(world: World) -> None:
    topic = await world.topic(partitions=1)
    subscription = await world.subscribe(topic)
    quiet = timedelta(milliseconds=600)
    asks_at_first_for(quiet, world)
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, b"0")
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 1)
        suspended = world.suspend(subscription)
        await world.plane.until_applied()
        world.resume(suspended)
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 2)
    first, second = world.endpoints.attempts
    assert second.at - first.at >= quiet.total_seconds()


async def test_a_worker_that_stops_is_gone_at_once(world: World) -> None:
    async with world.worker():
        await world.plane.until_applied()
    assert world.plane.beats == {}


async def test_a_worker_whose_database_is_down_stops_all_the_same(world: World) -> None:
    async with world.worker():
        await world.plane.until_applied()
        world.plane.down = True
    assert len(world.plane.beats) == 1
