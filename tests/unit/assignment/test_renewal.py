"""Positions that do not move are committed again."""

from collections.abc import Collection, Mapping

import pytest

from app.domain.errors import LogUnavailableError
from app.domain.message import Partition
from app.log.interface import Committed
from tests.fakes.supervised import supervised, until
from tests.fakes.worker import World
from workers.assignment.renewal import GROUPS_AT_ONCE, Renewal

ORDERS = Partition("shop.orders", 0)


@pytest.fixture
def world() -> World:
    return World()


async def test_idle_and_suspended_positions_are_committed_again(world: World) -> None:
    async with supervised(world) as parts:
        topic = await world.topic(partitions=1)
        idle, suspended = await world.subscribe(topic, "idle"), await world.subscribe(topic, "off")
        world.suspend(suspended)
        await parts.apply()
        parts.ownership.assign(ORDERS)
        await parts.until_open(parts.key(idle))
        before = world.log.stats.commits
        await Renewal(world.log, parts.supervisor, parts.consumers).renew()
        await parts.committer.flush()
        assert world.log.stats.commits == before + 2


async def test_what_is_still_to_be_committed_for_the_last_time_is_left_to_that(
    world: World,
) -> None:
    async with supervised(world) as parts:
        topic = await world.topic(partitions=1)
        subscription = await world.subscribe(topic)
        await parts.apply()
        parts.ownership.assign(ORDERS)
        await parts.until_open(parts.key(subscription))
        ((_, cursor),) = parts.consumers.cursors()
        cursor.request_started()
        world.suspend(subscription)
        await parts.apply()
        await until(lambda: cursor.closing)
        before = world.log.stats.commits
        await Renewal(world.log, parts.supervisor, parts.consumers).renew()
        assert world.log.stats.commits == before
        cursor.request_ended()


async def test_thousands_are_renewed_some_at_a_time_and_what_is_refused_is_said(
    world: World,
) -> None:
    async with supervised(world) as parts:
        topic = await world.topic(partitions=1)
        for n in range(GROUPS_AT_ONCE + 1):
            world.suspend(await world.subscribe(topic, f"s{n}"))
        await parts.apply()
        parts.ownership.assign(ORDERS)
        await until(lambda: bool(parts.supervisor.owned))
        commit, sizes = world.memory.commit, []

        async def refusing(
            offsets: Mapping[str, Mapping[Partition, Committed]],
        ) -> Mapping[tuple[str, Partition], str]:
            sizes.append(len(offsets))
            done = await commit(offsets)
            return {**done, ("shop.orders_s3", ORDERS): "no"} if len(sizes) == 1 else done

        world.memory.commit = refusing  # type: ignore[method-assign]
        with pytest.raises(LogUnavailableError, match="1 positions: no"):
            await Renewal(world.log, parts.supervisor, parts.consumers).renew()
        assert sizes == [GROUPS_AT_ONCE, 1]


async def test_what_is_resumed_meanwhile_is_left_to_its_cursor(world: World) -> None:
    async with supervised(world) as parts:
        topic = await world.topic(partitions=1)
        suspended = world.suspend(await world.subscribe(topic))
        await parts.apply()
        parts.ownership.assign(ORDERS)
        await until(lambda: bool(parts.supervisor.owned))
        committed = world.memory.committed

        async def meanwhile(
            groups: Mapping[str, Collection[Partition]],
        ) -> Mapping[str, Mapping[Partition, Committed]]:
            assert groups == {suspended.group: [ORDERS]}
            found = await committed(groups)
            world.memory.committed = committed  # type: ignore[method-assign]
            world.resume(suspended)
            await parts.apply()
            return found

        world.memory.committed = meanwhile  # type: ignore[method-assign]
        before = world.log.stats.commits
        await Renewal(world.log, parts.supervisor, parts.consumers).renew()
        assert world.log.stats.commits == before
