"""A worker dies before the traces stream has its entries: no message lacks its end for that."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

from app.domain.catalogue.topic import Ack
from app.domain.message import NewRecord
from app.domain.streams import TRACES
from app.domain.trace import TrackingMode
from app.log.interface import Position
from tests.fakes.memory_log import MemoryLog
from tests.fakes.worker import World, delivered
from tests.integration.worker.tracing import entries_of, statuses, tracked

LONG = timedelta(minutes=1)
COUNT = 20


class SlowTraces(MemoryLog):
    """A log whose traces stream takes nothing until it is `quick`; the rest of it does."""

    def __init__(self) -> None:
        super().__init__()
        self.quick = asyncio.Event()

    async def append(
        self, topic: str, records: Sequence[NewRecord], *, ack: Ack = Ack.ALL
    ) -> Sequence[Position]:
        if topic == TRACES:
            await self.quick.wait()
        return await super().append(topic, records, ack=ack)


def a_world(commit_hold_max: timedelta) -> tuple[World, SlowTraces]:
    log = SlowTraces()
    world = World(log, commit_hold_max=commit_hold_max)
    world.memory = log
    return world, log


async def test_what_a_dead_worker_could_not_say_is_sent_again_and_said() -> None:
    world, log = a_world(LONG)
    topic = await world.topic(partitions=2)
    told = tracked(world, await world.subscribe(topic, "told"))
    unreported = await world.subscribe(topic, "untold")
    async with world.doomed_worker():
        await world.publish(topic, *[b"x"] * COUNT)
        # What is not traced is committed; meanwhile the other waits.
        await world.plane.until(lambda: delivered(world, unreported.id) == COUNT)
        await world.endpoints.until(lambda: len(world.endpoints.bodies(told.endpoint)) == COUNT)
    assert delivered(world, told.id) == 0
    log.quick.set()
    async with world.worker("w2"):
        await world.plane.until(lambda: delivered(world, told.id) == COUNT)
        await world.plane.until(lambda: statuses(world).count("SUCCESS") == COUNT)
    assert {each.worker for each in entries_of(world.plane.traces)} == {"w2"}
    assert len(world.endpoints.bodies(unreported.endpoint)) == COUNT


async def test_a_delivery_that_leaves_no_entry_waits_for_no_traces() -> None:
    world, log = a_world(LONG)
    topic = await world.topic(partitions=1)
    subscription = await world.subscribe(topic, max_retries=0)
    tracked(world, subscription, TrackingMode.DISCARDED)
    async with world.worker():
        await world.plane.until_applied()
        await world.publish(topic, b"x")
        await world.plane.until(lambda: delivered(world, subscription.id) == 1)
    log.quick.set()


async def test_what_waits_in_a_worker_is_known_by_number_before_it_dies() -> None:
    world, log = a_world(timedelta(milliseconds=50))
    topic = await world.topic(partitions=2)
    subscription = tracked(world, await world.subscribe(topic))
    async with world.doomed_worker("w1"):
        await world.publish(topic, *[b"x"] * COUNT)
        await world.plane.until(lambda: delivered(world, subscription.id) == COUNT)
        await world.plane.until(lambda: world.plane.waiting_traces.get("w1") == COUNT)
    log.quick.set()
    async with world.worker("w2"):
        await world.publish(topic, b"x")
        await world.plane.until(lambda: statuses(world).count("SUCCESS") == 1)
    # What the dead one said stays so; who lives has nothing to say.
    assert world.plane.waiting_traces == {"w1": COUNT}


async def test_a_stream_that_takes_nothing_holds_commits_no_longer_than_the_bound() -> None:
    world, _ = a_world(timedelta(milliseconds=50))
    topic = await world.topic(partitions=2)
    subscription = tracked(world, await world.subscribe(topic))
    async with world.worker():
        for sent in (COUNT, 2 * COUNT):
            await world.publish(topic, *[b"x"] * COUNT)
            await world.plane.until(lambda: delivered(world, subscription.id) == sent)  # noqa: B023 - waited for
