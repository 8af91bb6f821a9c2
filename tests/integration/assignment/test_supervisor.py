"""The supervisor while things change under it: revoked, lost, suspended, resumed, deleted."""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

from app.domain.catalogue.changes import LastChange
from app.domain.catalogue.seek import Seek
from app.domain.catalogue.subscription import DeliveryPolicy, Subscription
from app.domain.commit import Progress
from app.domain.discards.retractions import Entry, entry_of
from app.domain.errors import StorageUnavailableError
from app.domain.message import Partition
from app.domain.streams import TRACES, UNDELIVERED
from app.log.interface import Committed
from app.storage.slices import AT_ONCE
from tests.fakes.supervised import Supervised, supervised, until
from tests.fakes.worker import World, delivered
from workers.assignment.supervisor import closing_timeout
from workers.consumer.subscription_consumers import DELETED_MAX

ORDERS = Partition("shop.orders", 0)


@pytest.fixture
def world() -> World:
    return World()


async def open_on(parts: Supervised) -> Subscription:
    """A subscription to a topic of one partition, which is ours."""
    topic = await parts.world.topic(partitions=1)
    subscription = await parts.world.subscribe(topic)
    await parts.apply()
    parts.ownership.assign(ORDERS)
    await parts.until_open(parts.key(subscription))
    return subscription


async def one_in_the_air(parts: Supervised) -> Subscription:
    """The same with one message that stays in flight until the gate opens."""
    subscription = await open_on(parts)
    parts.world.endpoints.gate.clear()
    await parts.world.publish(parts.world.plane.topics["shop.orders"], b"x")
    await until(lambda: parts.world.endpoints.in_flight == 1)
    return subscription


async def test_a_revoked_partition_is_let_go_when_all_has_landed_and_is_committed(
    world: World,
) -> None:
    async with supervised(world) as parts:
        subscription = await one_in_the_air(parts)
        parts.ownership.revoke(ORDERS)
        await until(lambda: not parts.consumers.keys())
        assert parts.ownership.released == []
        world.endpoints.gate.set()
        await until(lambda: bool(parts.ownership.released))
        assert parts.committed(subscription) == 1


async def test_a_revoked_partition_waits_for_what_a_suspension_left_in_the_air(
    world: World,
) -> None:
    async with supervised(world) as parts:
        subscription = await one_in_the_air(parts)
        world.suspend(subscription)
        await parts.apply()
        parts.ownership.revoke(ORDERS)
        await until(lambda: not parts.supervisor.owned)
        await let_all_run()
        assert parts.ownership.released == []
        world.endpoints.gate.set()
        await until(lambda: bool(parts.ownership.released))
        assert parts.committed(subscription) == 1


async def test_a_partition_revoked_while_we_stop_waits_for_what_is_in_the_air(
    world: World,
) -> None:
    async with supervised(world) as parts:
        subscription = await one_in_the_air(parts)
        stopping = asyncio.ensure_future(parts.supervisor.stop())
        await until(lambda: not parts.consumers.keys())
        parts.ownership.revoke(ORDERS)
        await until(lambda: not parts.supervisor.owned)
        await let_all_run()
        assert parts.ownership.released == []
        world.endpoints.gate.set()
        await until(lambda: bool(parts.ownership.released))
        assert parts.committed(subscription) == 1
        await stopping


async def test_a_partition_lost_while_we_stop_is_not_committed(world: World) -> None:
    async with supervised(world) as parts:
        subscription = await one_in_the_air(parts)
        stopping = asyncio.ensure_future(parts.supervisor.stop())
        await until(lambda: not parts.consumers.keys())
        parts.ownership.lose(ORDERS)
        await until(lambda: not parts.supervisor.owned)
        world.endpoints.gate.set()
        await stopping
        assert parts.committed(subscription) == 0


async def test_a_stop_waits_for_what_a_suspension_left_in_the_air(world: World) -> None:
    async with supervised(world) as parts:
        subscription = await one_in_the_air(parts)
        world.suspend(subscription)
        await parts.apply()
        stopping = asyncio.ensure_future(parts.supervisor.stop())
        await let_all_run()
        assert not stopping.done()
        world.endpoints.gate.set()
        (closed,) = await stopping
        assert parts.committed(subscription) == 1
        assert closed[1].committed.delivered == 1


async def test_what_lands_after_a_suspension_is_reported(world: World) -> None:
    async with supervised(world) as parts:
        subscription = await one_in_the_air(parts)
        world.suspend(subscription)
        await parts.apply()
        world.endpoints.gate.set()
        await until(lambda: parts.committed(subscription) == 1)
        await let_all_run()
        world.plane.down = True
        with pytest.raises(StorageUnavailableError):
            await parts.reporter.report(Known())
        world.plane.down = False
        await parts.reporter.report(Known())
        assert delivered(world, subscription.id) == 1
        assert parts.consumers.unreported() == []


async def test_a_worker_reports_how_many_partitions_of_topics_it_owns(world: World) -> None:
    streams = (Partition(UNDELIVERED, 0), Partition(TRACES, 1))
    async with supervised(world) as parts:
        await parts.reporter.report(Known(ORDERS, *streams))
        assert world.plane.partitions == {"w1": 1}
        await parts.reporter.report(Known(*streams))
        assert world.plane.partitions == {"w1": 0}


async def test_a_long_report_is_made_in_turns(world: World) -> None:
    topic = await world.topic("shop.wide", partitions=3 * AT_ONCE)
    subscription = await world.subscribe(topic, "all")
    partitions = await world.log.partitions(topic.name)
    async with supervised(world) as parts:
        await parts.apply()
        parts.ownership.assign(*partitions)
        await parts.until_open(*(parts.key(subscription, each.index) for each in partitions))
        reporting = asyncio.ensure_future(parts.reporter.report(Known()))
        turns = 0
        while not reporting.done():
            turns += 1
            await asyncio.sleep(0)
        await reporting
    assert turns > 3
    assert len(world.plane.statuses) == len(partitions)


async def test_a_resumption_waits_for_what_is_in_the_air_and_sends_it_once(world: World) -> None:
    async with supervised(world) as parts:
        subscription = await one_in_the_air(parts)
        suspended = world.suspend(subscription)
        await parts.apply()
        world.resume(suspended)
        await parts.apply()
        await let_all_run()
        assert not parts.consumers.keys()
        world.endpoints.gate.set()
        await parts.until_open(parts.key(subscription))
        await world.publish(world.plane.topics["shop.orders"], b"y")
        await until(lambda: len(world.endpoints.attempts) == 2)
    assert world.endpoints.bodies() == [b"x", b"y"]


def test_a_suspension_gives_a_request_all_the_time_that_it_has() -> None:
    assert closing_timeout(DeliveryPolicy()) == timedelta(seconds=4)
    assert closing_timeout(DeliveryPolicy(request_timeout=timedelta(seconds=60))) > timedelta(
        minutes=1
    )


async def test_a_lost_partition_is_not_committed_by_what_lands_later(world: World) -> None:
    async with supervised(world) as parts:
        subscription = await one_in_the_air(parts)
        parts.ownership.lose(ORDERS)
        await until(lambda: not parts.consumers.keys())
        world.endpoints.gate.set()
        await until(lambda: world.endpoints.in_flight == 0)
        await parts.committer.flush()
        assert parts.committed(subscription) == 0


async def test_a_partition_lost_while_it_is_handed_over_is_not_committed(world: World) -> None:
    async with supervised(world) as parts:
        subscription = await one_in_the_air(parts)
        parts.ownership.revoke(ORDERS)
        parts.ownership.lose(ORDERS)
        await until(lambda: not parts.consumers.keys())
        await let_all_run()
        world.endpoints.gate.set()
        await until(lambda: bool(parts.ownership.released))
        assert parts.committed(subscription) == 0


async def test_a_partition_taken_away_while_its_cursor_opens_stays_closed(world: World) -> None:
    async with supervised(world) as parts:
        topic = await world.topic(partitions=1)
        await world.subscribe(topic)
        looked_up = await looking_up(world, parts)
        parts.ownership.revoke(ORDERS)
        await until(lambda: bool(parts.ownership.released))
        looked_up.go_on.set()
        await let_all_run()
        assert not parts.consumers.keys()


async def test_a_partition_that_went_away_and_came_back_starts_where_its_owner_left_it(
    world: World,
) -> None:
    """What was looked up in the first term is out of date: another worker went on meanwhile."""
    async with supervised(world) as parts:
        subscription, looked_up = await lost_while_looking_up(world, parts, b"0", b"1")
        commit = world.memory.commits[subscription.group][ORDERS]
        world.memory.commits[subscription.group][ORDERS] = replace(commit, offset=1)
        parts.ownership.assign(ORDERS)
        await until(lambda: bool(parts.supervisor.owned))
        looked_up.go_on.set()
        await until(lambda: bool(world.endpoints.attempts))
        await let_all_run()
    assert world.endpoints.bodies() == [b"1"]


async def test_a_worker_that_lost_a_partition_retracts_nothing_of_its_next_owner(
    world: World,
) -> None:
    async with supervised(world) as parts:
        subscription, looked_up = await lost_while_looking_up(world, parts, b"0", is_slow=True)
        await begin_epoch(world, subscription)
        looked_up.go_on.set()
        await let_all_run()
    assert retractions(world) == []


async def test_a_worker_that_got_a_partition_back_retracts_what_its_last_owner_did_not_commit(
    world: World,
) -> None:
    async with supervised(world) as parts:
        subscription, looked_up = await lost_while_looking_up(world, parts, b"0")
        await begin_epoch(world, subscription)
        parts.ownership.assign(ORDERS)
        await until(lambda: bool(parts.supervisor.owned))
        looked_up.go_on.set()
        await until(lambda: bool(world.endpoints.attempts))
    assert len(retractions(world)) == 1


async def test_a_subscription_moved_while_its_cursor_opens_starts_where_it_was_moved_to(
    world: World,
) -> None:
    async with supervised(world) as parts:
        topic = await world.topic(partitions=1)
        subscription = await world.subscribe(topic)
        await world.publish(topic, b"0", b"1")
        looked_up = await looking_up(world, parts)
        world.plane.put(replace(subscription, seek=Seek(number=1, offsets=(1,))))
        await parts.apply()
        looked_up.go_on.set()
        await until(lambda: bool(world.endpoints.attempts))
        await let_all_run()
    assert world.endpoints.bodies() == [b"1"]


async def test_a_deleted_subscription_commits_nothing_into_the_group_of_its_successor(
    world: World,
) -> None:
    async with supervised(world) as parts:
        old = await one_in_the_air(parts)
        world.plane.delete(old)
        new = await world.subscribe(world.plane.topics["shop.orders"])
        await parts.apply()
        await parts.until_open(parts.key(new))
        world.endpoints.gate.set()
        await until(lambda: world.endpoints.in_flight == 0)
        await parts.committer.flush()
        commit = world.memory.commits[new.group][ORDERS]
        assert new.id in commit.metadata


async def deleted(parts: Supervised, count: int) -> list[str]:
    """The ids of subscriptions that were open, and are deleted."""
    topic, ids = parts.world.plane.topics["shop.orders"], []
    for number in range(count):
        subscription = await parts.world.subscribe(topic, f"deleted{number}")
        await parts.apply()
        await parts.until_open(parts.key(subscription))
        parts.world.plane.delete(subscription)
        await parts.apply()
        ids.append(subscription.id)
    return ids


def known(parts: Supervised) -> list[str]:
    return [each.subscription.id for each in parts.consumers.known()]


async def test_a_worker_keeps_what_it_knows_of_the_last_deleted_subscriptions(
    world: World,
) -> None:
    async with supervised(world) as parts:
        suspended = await open_on(parts)
        world.suspend(suspended)
        ids = await deleted(parts, DELETED_MAX + 3)
        assert known(parts) == [suspended.id, *ids[3:]]


async def test_what_is_known_of_a_deleted_subscription_is_kept_while_a_request_is_in_flight(
    world: World,
) -> None:
    async with supervised(world) as parts:
        subscription = await one_in_the_air(parts)
        world.plane.delete(subscription)
        await deleted(parts, DELETED_MAX + 1)
        assert subscription.id in known(parts)
        world.endpoints.gate.set()
        await until(lambda: world.endpoints.in_flight == 0)
        await let_all_run()
        await deleted(parts, 1)
        assert subscription.id not in known(parts)


async def test_a_worker_that_has_not_heard_of_a_deletion_sends_nothing_again(world: World) -> None:
    async with supervised(world) as parts:
        old = await open_on(parts)
        topic = world.plane.topics["shop.orders"]
        await world.publish(topic, b"0")
        await until(lambda: len(world.endpoints.attempts) == 1)
        parts.ownership.lose(ORDERS)
        await until(lambda: not parts.supervisor.owned)
        world.plane.delete(old)
        # From here on, the log has the successor's commit, and the copies are older than the log's.
        new = await world.subscribe(topic)
        parts.ownership.assign(ORDERS)
        await until(lambda: bool(parts.supervisor.owned))
        await let_all_run()
        assert not parts.consumers.keys()
        await parts.apply()
        await parts.until_open(parts.key(new))
    assert world.endpoints.bodies() == [b"0"]


async def test_a_topic_created_anew_is_read_from_its_beginning(world: World) -> None:
    async with supervised(world) as parts:
        old = await open_on(parts)
        topic = world.plane.topics["shop.orders"]
        await world.publish(topic, b"0", b"1", b"2")
        await until(lambda: len(world.endpoints.attempts) == 3)
        world.plane.delete(old)
        await parts.apply()
        await world.memory.delete_topic(topic.name)
        await world.topic(partitions=1)
        await world.subscribe(topic)
        await parts.apply()
        await world.publish(topic, b"new")
        await until(lambda: len(world.endpoints.attempts) == 4)
    assert world.endpoints.bodies()[3:] == [b"new"]


async def test_partitions_added_to_a_topic_are_delivered_from_their_first_message(
    world: World,
) -> None:
    async with supervised(world) as parts:
        subscription = await open_on(parts)
        await world.topic(partitions=2)
        await world.publish(world.plane.topics["shop.orders"], b"0", b"1", b"2", b"3")
        await parts.apply()
        parts.ownership.assign(Partition("shop.orders", 1))
        await parts.until_open(parts.key(subscription, 1))
        await until(lambda: len(world.endpoints.attempts) == 4)


async def test_fewer_are_in_the_air_as_soon_as_fewer_are_allowed(world: World) -> None:
    async with supervised(world) as parts:
        subscription = await open_on(parts)
        world.endpoints.gate.clear()
        topic = world.plane.topics["shop.orders"]
        await world.publish(topic, *(b"%d" % number for number in range(100)))
        await until(lambda: world.endpoints.in_flight == 100)
        await world.publish(topic, *(b"%d" % number for number in range(100, 120)))
        world.plane.put(replace(subscription, policy=replace(subscription.policy, in_flight_max=1)))
        await parts.apply()
        world.endpoints.gate.set()
        await until(lambda: world.endpoints.in_flight <= 1)
        world.endpoints.in_flight_peak = 0
        await until(lambda: len(world.endpoints.attempts) == 120)
    assert world.endpoints.in_flight_peak == 1


async def test_streams_of_our_own_are_given_to_who_reads_them(world: World) -> None:
    stream = Partition("angelia.undelivered", 0)
    async with supervised(world) as parts:
        await open_on(parts)
        parts.ownership.assign(stream)
        await until(lambda: parts.streams.partitions == {stream})
        await parts.supervisor.stop()
        assert parts.streams.partitions == frozenset()


class HeldLookUp:
    """Makes the first look-up of commits take as long as `go_on` says.

    It finds what was committed when it began, or, if it `is_slow`, when it is let go on.
    """

    def __init__(self, world: World, *, is_slow: bool = False) -> None:
        self._committed = world.memory.committed
        self._is_slow = is_slow
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()
        world.memory.committed = self  # type: ignore[method-assign]

    async def __call__(
        self, groups: Mapping[str, Collection[Partition]]
    ) -> Mapping[str, Mapping[Partition, Committed]]:
        found = await self._committed(groups)
        self.begun.set()
        await self.go_on.wait()
        return await self._committed(groups) if self._is_slow else found


async def looking_up(world: World, parts: Supervised, *, is_slow: bool = False) -> HeldLookUp:
    """Assign the partition, and return while its commit is looked up."""
    looked_up = HeldLookUp(world, is_slow=is_slow)
    await parts.apply()
    parts.ownership.assign(ORDERS)
    await looked_up.begun.wait()
    return looked_up


async def lost_while_looking_up(
    world: World, parts: Supervised, *bodies: bytes, is_slow: bool = False
) -> tuple[Subscription, HeldLookUp]:
    """Publish, assign the partition, and take it away while its commit is looked up."""
    topic = await world.topic(partitions=1)
    subscription = await world.subscribe(topic)
    await world.publish(topic, *bodies)
    looked_up = await looking_up(world, parts, is_slow=is_slow)
    parts.ownership.lose(ORDERS)
    await until(lambda: not parts.supervisor.owned)
    return subscription, looked_up


async def begin_epoch(world: World, subscription: Subscription) -> None:
    """Commit a producer epoch, as another worker does before it records discards."""
    stream = replace(world.memory.topics[subscription.topic], name=UNDELIVERED)
    await world.memory.create_topic(stream)
    progress = Progress(subscription_id=subscription.id, offset=0, producer_epoch="theirs")
    world.memory.commits[subscription.group][ORDERS] = Committed(0, progress.metadata())


def retractions(world: World) -> list[Entry | None]:
    return [entry_of(record) for record in world.memory.records(UNDELIVERED)]


class Known:
    """A worker that has applied a change and owns these partitions."""

    applied = LastChange(1, None)

    def __init__(self, *owned: Partition) -> None:
        self.owned = owned
        self.on_applied = asyncio.Event()


async def let_all_run() -> None:
    """As many turns of the loop as anything here may take that should not happen."""
    for _ in range(50):
        await asyncio.sleep(0)
