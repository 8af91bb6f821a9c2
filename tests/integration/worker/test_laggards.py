"""A subscription that works off a backlog, or fails, beside others: counted in requests."""

from datetime import timedelta

from app.domain.catalogue.topic import Topic
from app.domain.delivery import Retry
from tests.fakes.worker import World, delivered
from workers.consumer.loop_budget import STARTS_MAX

OTHERS = 5
BACKLOG = 4_000
# So much that it is not read at once.
OLD = b"old" + b"x" * 4_000
# From the log to the request of a live message: the reader, the consumers and their slots in turn.
TURNS_MAX = 5


async def waited_for(world: World, topic: Topic, late_id: str) -> list[int]:
    """Requests of the backlog that are begun before each of some live messages is with all."""
    attempts, waited = world.endpoints.attempts, list[int]()
    await world.endpoints.until(lambda: len(attempts) > STARTS_MAX)
    for number in range(10):
        before, live = len(attempts), b"live %d" % number

        def all_have_it(live: bytes = live, before: int = before) -> bool:
            return sum(a.body == live for a in attempts[before:]) == OTHERS

        await world.publish(topic, live)
        await world.endpoints.until(all_have_it)
        waited.append(sum(a.body == OLD for a in attempts[before:]))
    assert delivered(world, late_id) < BACKLOG, "there was no backlog any more"
    return waited


async def waited_beside_a_backlog(world: World, topic: Topic, *, of: Topic) -> list[int]:
    """As `waited_for`, beside one that is resumed with a backlog `of` that topic."""
    late = world.suspend(await world.subscribe(of, "late", in_flight_max=2_000))
    await world.publish(of, *[OLD] * BACKLOG)
    for number in range(OTHERS):
        await world.subscribe(topic, f"s{number}")
    async with world.worker():
        await world.plane.until_applied()
        world.resume(late)
        return await waited_for(world, topic, late.id)


async def test_live_messages_wait_for_few_requests_of_one_that_catches_up() -> None:
    world = World()
    topic = await world.topic(partitions=1)
    waited = await waited_beside_a_backlog(world, topic, of=topic)
    assert max(waited) <= TURNS_MAX * STARTS_MAX


async def test_live_messages_wait_for_few_requests_of_a_backlog_of_another_topic() -> None:
    world = World()
    alone, topic = await world.topic("shop.alone"), await world.topic(partitions=1)
    waited = await waited_beside_a_backlog(world, topic, of=alone)
    assert max(waited) <= TURNS_MAX * STARTS_MAX


async def test_live_messages_wait_for_few_of_those_that_fail_all_the_time() -> None:
    world = World()
    broken, topic = await world.topic("shop.broken"), await world.topic(partitions=1)
    failing = await world.subscribe(
        broken, "failing", in_flight_max=2_000, message_backoff=timedelta(0)
    )
    world.endpoints.replies[failing.endpoint] = lambda _: Retry(reason="no", status=500)
    await world.publish(broken, *[OLD] * BACKLOG)
    for number in range(OTHERS):
        await world.subscribe(topic, f"s{number}")
    async with world.worker():
        await world.plane.until_applied()
        await world.endpoints.until(lambda: len(world.endpoints.attempts) > BACKLOG)
        waited = await waited_for(world, topic, failing.id)
    assert max(waited) <= TURNS_MAX * STARTS_MAX
