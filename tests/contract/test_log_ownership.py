"""The contract of every message log: who owns which partition."""

import asyncio
import time
from collections.abc import Collection

from app.domain.message import Partition
from app.log.interface import MessageLog
from tests.contract.harness import Harness
from tests.contract.logs import EVENTUALLY, TOPIC, Holder, created, eventually, holding


async def shared(partitions: Collection[Partition], *holders: Holder) -> None:
    """Wait until each partition has exactly one of the holders, and each holder has some."""

    async def fair() -> bool:
        owned = [holder.owned for holder in holders]
        return (
            all(owned)
            and sum(map(len, owned)) == len(partitions)
            and set().union(*owned) == set(partitions)
        )

    await eventually(fair)


async def test_the_only_member_gets_everything(log: MessageLog) -> None:
    partitions = await created(log, partitions=8)
    async with holding(log, "a") as holder:
        await holder.until(lambda h: h.owned == set(partitions))


async def test_only_partitions_of_subscribed_topics_are_assigned(log: MessageLog) -> None:
    partitions = await created(log, partitions=2)
    others = await created(log, "shop.other", partitions=2)
    async with holding(log, "a") as one:
        await one.until(lambda h: h.owned == set(partitions))
        async with holding(log, "b", ["shop.other"]) as two:
            await two.until(lambda h: h.owned == set(others))
            await shared([*partitions, *others], one, two)
            assert one.owned == set(partitions)


async def test_a_topic_created_after_subscribing_is_taken_up(log: MessageLog) -> None:
    partitions = await created(log, partitions=2)
    async with holding(log, "a", [TOPIC, "shop.later"]) as holder:
        await holder.until(lambda h: h.owned == set(partitions))
        later = await created(log, "shop.later", partitions=2)
        await holder.until(lambda h: h.owned == {*partitions, *later})


async def test_a_new_topic_is_owned_soon_after_it_is_subscribed_to(log: MessageLog) -> None:
    partitions = await created(log, partitions=2)
    async with log.ownership(member="a") as ownership, asyncio.TaskGroup() as tasks:
        holder = Holder(ownership)
        following = tasks.create_task(holder.run())
        ownership.subscribe([TOPIC])
        await holder.until(lambda h: h.owned == set(partitions))
        later = await created(log, "shop.later", partitions=2)
        ownership.subscribe([TOPIC, "shop.later"])
        await holder.until(lambda h: h.owned == {*partitions, *later})
        assert holder.assigned == 4
        following.cancel()


async def test_a_topic_no_longer_subscribed_to_is_given_up(log: MessageLog) -> None:
    partitions = await created(log, partitions=2)
    others = await created(log, "shop.other", partitions=2)
    async with log.ownership(member="a") as ownership, asyncio.TaskGroup() as tasks:
        holder = Holder(ownership)
        following = tasks.create_task(holder.run())
        ownership.subscribe([TOPIC, "shop.other"])
        await holder.until(lambda h: h.owned == {*partitions, *others})
        ownership.subscribe([TOPIC])
        await holder.until(lambda h: h.owned == set(partitions))
        following.cancel()


async def test_added_partitions_are_assigned(log: MessageLog) -> None:
    partitions = await created(log, partitions=2)
    async with holding(log, "a") as holder:
        await holder.until(lambda h: h.owned == set(partitions))
        more = await created(log, partitions=5)
        await holder.until(lambda h: h.owned == set(more))


async def test_a_deleted_topic_is_owned_by_nobody(log: MessageLog) -> None:
    partitions = await created(log, partitions=2)
    async with holding(log, "a") as holder:
        await holder.until(lambda h: h.owned == set(partitions))
        await log.delete_topic(TOPIC)
        await holder.until(lambda h: not h.owned)


async def test_a_second_member_gets_a_share_and_gives_it_back_when_it_leaves(
    log: MessageLog, harness: Harness
) -> None:
    partitions = await created(log, partitions=32)
    async with holding(log, "a") as one, harness.opened() as other:
        await one.until(lambda h: h.owned == set(partitions))
        async with holding(other, "b") as two:
            await shared(partitions, one, two)
            assert two.assigned == len(two.owned)
        await one.until(lambda h: h.owned == set(partitions))


async def test_a_third_member_moves_only_what_it_takes(log: MessageLog, harness: Harness) -> None:
    partitions = await created(log, partitions=48)
    async with (
        harness.opened() as second,
        harness.opened() as third,
        holding(log, "a") as one,
        holding(second, "b") as two,
    ):
        await shared(partitions, one, two)
        before = set(one.owned), set(two.owned)
        async with holding(third, "c") as three:
            await shared(partitions, one, two, three)
            assert one.owned <= before[0]
            assert two.owned <= before[1]


async def test_capacity_weighs_the_shares(log: MessageLog, harness: Harness) -> None:
    # By chance the small one may get none of a few.
    partitions = await created(log, partitions=128)
    async with (
        harness.opened() as other,
        holding(log, "small", capacity=1) as small,
        holding(other, "large", capacity=7) as large,
    ):
        await shared(partitions, small, large)
        assert len(large.owned) > 2 * len(small.owned)


async def test_a_revoked_partition_is_handed_over_when_it_is_released(
    log: MessageLog, harness: Harness
) -> None:
    partitions = await created(log, partitions=32)
    async with (
        harness.opened() as other,
        holding(log, "a", releases=False, revoke_timeout=30) as one,
    ):
        await one.until(lambda h: h.owned == set(partitions))
        async with holding(other, "b") as two:
            await one.until(lambda h: bool(h.revoked))
            (revoked,) = one.revoked
            assert not two.owned & revoked.partitions
            revoked.release()
            revoked.release()
            await two.until(lambda h: h.owned >= revoked.partitions)
        await one.until(lambda h: h.owned == set(partitions))


async def test_a_revoked_partition_is_not_handed_over_before_it_is_released(
    log: MessageLog, harness: Harness
) -> None:
    partitions = await created(log, partitions=32)
    async with (
        harness.opened() as other,
        holding(log, "a", releases=False, revoke_timeout=2.0) as one,
    ):
        await one.until(lambda h: h.owned == set(partitions))
        began = time.monotonic()
        async with holding(other, "b") as two:
            await one.until(lambda h: bool(h.revoked))
            # Never released: taken away when the time is up, which begins later than here.
            await two.until(lambda h: bool(h.owned))
            assert time.monotonic() - began > 1.9


async def test_what_a_killed_member_had_is_taken_over(log: MessageLog, harness: Harness) -> None:
    partitions = await created(log, partitions=16)
    async with harness.member("doomed", [TOPIC], owns=16) as doomed, holding(log, "b") as heir:
        await doomed.kill()
        await heir.until(lambda h: h.owned == set(partitions))


async def test_a_member_gets_a_topic_that_it_subscribes_to_while_a_dead_member_is_waited_for(
    log: MessageLog, harness: Harness
) -> None:
    partitions = await created(log, partitions=16)
    own = await created(log, "shop.own")
    async with (
        harness.member("doomed", [TOPIC], owns=16) as doomed,
        holding(log, "b", ["shop.own"]) as heir,
    ):
        await heir.until(lambda h: h.owned == set(own))
        await doomed.kill()
        heir.subscribe([TOPIC, "shop.own"])
        await heir.until(lambda h: h.owned == {*partitions, *own})


async def test_a_topic_created_anew_is_assigned_anew(log: MessageLog) -> None:
    partitions = await created(log, partitions=2)
    async with holding(log, "a") as holder:
        await holder.until(lambda h: h.owned == set(partitions))
        await log.delete_topic(TOPIC)
        await holder.until(lambda h: not h.owned)
        await created(log, partitions=2)
        await holder.until(lambda h: h.owned == set(partitions))


async def test_events_end_when_the_member_left(log: MessageLog) -> None:
    async with log.ownership(member="a") as ownership:
        events = ownership.events()
    async with asyncio.timeout(EVENTUALLY):
        assert [event async for event in events] == []
