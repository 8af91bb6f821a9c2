"""Retransmissions on their way: chosen messages come again, beside what is new."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from app.domain.catalogue.subscription import Ordering, Subscription
from app.domain.catalogue.topic import Ack, Topic
from app.domain.delivery import Delivered, Discarded, Outcome, Retry
from app.domain.errors import LogUnavailableError
from app.domain.message import (
    HEADER_ID,
    HEADER_TIMESTAMP,
    Message,
    NewRecord,
    Partition,
    Record,
)
from app.domain.replay.retransmission import (
    HEADER_SOURCE,
    MessageRun,
    RetransmissionState,
    ahead_max,
)
from app.domain.replay.sending_rate import Sending
from app.log.interface import UNKNOWN_OFFSET, Position
from tests.fakes.memory_log import MemoryLog
from tests.fakes.sending import Kept
from tests.fakes.worker import Attempt, World, until

JOB = "e" * 32
FAST = 1_000_000


@pytest.fixture
def world() -> World:
    return World()


async def retransmission(
    world: World,
    topic: Topic,
    subscription: Subscription,
    *runs: MessageRun,
    share: float = 1.0,
    rate: float | None = None,
) -> Kept:
    bounds = await world.log.bounds(await world.log.partitions(topic.name))
    sending = Sending(
        id=JOB,
        attempt=1,
        subscription_id=subscription.id,
        topic=topic.name,
        share=share,
        rate=rate,
        matched=sum(run.messages for run in runs),
        begun={partition.index: bound.end for partition, bound in bounds.items()},
    )
    return world.sendings.add(Kept(sending=sending, runs=runs))


def a_run(start: int, end: int, partition: int = 0) -> MessageRun:
    count = end - start
    return MessageRun(partition=partition, start=start, end=end, messages=count, size=count)


async def until_ended(world: World, kept: Kept, state: RetransmissionState) -> None:
    await until(world.sendings.changed, lambda: kept.state is state)


def again(world: World, subscription: Subscription, first: int) -> list[bytes]:
    """What the endpoint got after the first so many requests."""
    return world.endpoints.bodies(subscription.endpoint)[first:]


async def all_of(world: World, topic: Topic) -> list[MessageRun]:
    """All that is in the topic."""
    bounds = await world.log.bounds(await world.log.partitions(topic.name))
    return [a_run(0, bound.end, each.index) for each, bound in bounds.items() if bound.end]


async def in_log(world: World, topic: Topic) -> int:
    bounds = await world.log.bounds(await world.log.partitions(topic.name))
    return sum(bound.end - bound.start for bound in bounds.values())


async def test_chosen_messages_come_again_and_no_others(world: World) -> None:
    topic = await world.topic(partitions=1)
    subscription = await world.subscribe(topic, rate=FAST)
    neighbour = await world.subscribe(topic, "n", rate=FAST)
    await world.publish(topic, *(b"%d" % n for n in range(10)))
    async with world.worker():
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 20)
        kept = await retransmission(world, topic, subscription, a_run(2, 4), a_run(7, 8))
        await until_ended(world, kept, RetransmissionState.DONE)
    assert sorted(again(world, subscription, 10)) == [b"2", b"3", b"7"]
    assert len(world.endpoints.bodies(neighbour.endpoint)) == 10
    assert (len(kept.sent), kept.finished) == (3, 3)
    assert {(sent.source_partition, sent.source_offset) for sent in kept.sent} == {
        (0, 2), (0, 3), (0, 7),
    }  # fmt: skip


@pytest.mark.parametrize(("share", "rate"), [(0.4, None), (1.0, 400)])
async def test_a_few_are_appended_at_a_time_so_that_what_is_new_comes_in_between(
    world: World, share: float, rate: float | None
) -> None:
    log = world.log
    assert isinstance(log, MemoryLog)
    topic = await world.topic(partitions=1)
    subscription = await world.subscribe(topic, rate=1_000)
    await world.publish(topic, *(b"%d" % n for n in range(40)))
    lengths = [40]

    def all_are_appended() -> bool:
        lengths.append(len(log.records(topic.name)))
        return lengths[-1] == 80

    async with world.worker():
        kept = await retransmission(
            world, topic, subscription, a_run(0, 40), share=share, rate=rate
        )
        await until(log.changed, all_are_appended)
        await until_ended(world, kept, RetransmissionState.DONE)
    # In a hundredth of a second 4 may be, and a fourth more to catch up.
    assert max(after - before for before, after in pairwise(lengths)) == 5


class UnsureLog(MemoryLog):
    """Says once that it has the messages, and not where."""

    def __init__(self) -> None:
        super().__init__()
        self.is_unsure = False

    async def append(
        self, topic: str, records: Sequence[NewRecord], *, ack: Ack = Ack.ALL
    ) -> Sequence[Position]:
        positions = await super().append(topic, records, ack=ack)
        if not self.is_unsure:
            return positions
        self.is_unsure = False
        return [replace(each, offset=UNKNOWN_OFFSET) for each in positions]


async def test_what_the_log_has_somewhere_is_read_back_and_not_appended_again() -> None:
    log = UnsureLog()
    world = World(log)
    topic = await world.topic(partitions=1)
    subscription = await world.subscribe(topic, rate=FAST)
    await world.publish(topic, b"a")
    async with world.worker():
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 1)
        log.is_unsure = True
        kept = await retransmission(world, topic, subscription, a_run(0, 1))
        await until_ended(world, kept, RetransmissionState.DONE)
    assert not log.is_unsure
    assert again(world, subscription, 1) == [b"a"]
    assert [sent.offset for sent in kept.sent] == [1]


class HalfLog(MemoryLog):
    """Stores once all messages but the first, whose partition has no leader, and says so."""

    def __init__(self) -> None:
        super().__init__()
        self.is_half = False

    async def append(
        self, topic: str, records: Sequence[NewRecord], *, ack: Ack = Ack.ALL
    ) -> Sequence[Position]:
        if not self.is_half or not is_copy(records[0]):
            return await super().append(topic, records, ack=ack)
        self.is_half = False
        await super().append(topic, records[1:], ack=ack)
        raise LogUnavailableError("a partition has no leader")


def is_copy(record: NewRecord) -> bool:
    return HEADER_SOURCE in dict(record.headers)


async def test_a_message_before_those_that_the_log_took_is_sent_too() -> None:
    log = HalfLog()
    world = World(log)
    topic = await world.topic(partitions=2)
    subscription = await world.subscribe(topic, rate=FAST)
    await world.publish(topic, *(b"%d" % n for n in range(20)))
    chosen = await all_of(world, topic)
    async with world.worker():
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 20)
        log.is_half = True
        kept = await retransmission(world, topic, subscription, *chosen)
        await until_ended(world, kept, RetransmissionState.DONE)
    assert not log.is_half
    assert await in_log(world, topic) == 40
    assert (len(kept.sent), kept.finished) == (20, 20)
    assert sorted(again(world, subscription, 20)) == sorted(b"%d" % n for n in range(20))


async def test_what_was_appended_and_not_recorded_is_not_appended_again(world: World) -> None:
    topic = await world.topic(partitions=2)
    subscription = await world.subscribe(topic, rate=FAST)
    await world.publish(topic, *(b"%d" % n for n in range(40)))
    chosen = await all_of(world, topic)
    async with world.worker("first"):
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 40)
        # It appends, and dies before it can say so.
        world.sendings.losing = True
        kept = await retransmission(world, topic, subscription, *chosen)
        await world.endpoints.until(lambda: len(world.endpoints.attempts) > 40)
    assert kept.sent == []
    world.sendings.losing = False
    world.sendings.of("first").abandon()
    async with world.worker("second"):
        await until_ended(world, kept, RetransmissionState.DONE)
    assert await in_log(world, topic) == 80
    assert len(kept.sent) == len(set(kept.sent)) == 40
    assert sorted(again(world, subscription, 40)) == sorted(b"%d" % n for n in range(40))


async def test_a_suspended_subscription_is_sent_nothing_and_nothing_is_appended(
    world: World,
) -> None:
    topic = await world.topic(partitions=1)
    subscription = await world.subscribe(topic, rate=FAST)
    await world.publish(topic, b"1", b"2")
    async with world.worker():
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 2)
        suspended = world.suspend(subscription)
        kept = await retransmission(world, topic, subscription, a_run(0, 2))
        await until(world.sendings.changed, lambda: bool(kept.worker))
        looks = 0

        def looked() -> bool:
            nonlocal looks
            looks += 1
            return looks > 3

        await until(world.sendings.changed, looked)
        assert await in_log(world, topic) == 2
        world.resume(suspended)
        await until_ended(world, kept, RetransmissionState.DONE)
    assert sorted(again(world, subscription, 2)) == [b"1", b"2"]


async def test_what_is_left_of_a_cancelled_one_is_passed_over(world: World) -> None:
    topic = await world.topic(partitions=1)
    subscription = await world.subscribe(topic, rate=FAST, in_flight_max=1)
    await world.publish(topic, *(b"%d" % n for n in range(10)))
    async with world.worker():
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 10)
        world.endpoints.gate.clear()
        kept = await retransmission(world, topic, subscription, a_run(0, 10))
        await until(world.sendings.changed, lambda: len(kept.sent) == 10)
        await world.endpoints.until(lambda: world.endpoints.in_flight == 1)
        world.sendings.cancel(kept)
        world.plane.put(replace(subscription, dropped=(JOB,)))
        await world.plane.until_applied()
        world.endpoints.gate.set()
        await world.publish(topic, b"new")
        await world.endpoints.until(lambda: world.endpoints.bodies()[-1] == b"new")
    # The one that was in flight, and what is new.
    assert len(again(world, subscription, 10)) == 2


async def test_what_a_cancelled_one_did_not_deliver_counts_as_not_sent_again(world: World) -> None:
    topic = await world.topic(partitions=1)
    subscription = await world.subscribe(topic, rate=FAST, in_flight_max=1)
    await world.publish(topic, *(b"%d" % n for n in range(10)))
    async with world.worker():
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 10)
        world.endpoints.gate.clear()
        kept = await retransmission(world, topic, subscription, a_run(0, 10))
        await until(world.sendings.changed, lambda: len(kept.sent) == 10)
        await world.endpoints.until(lambda: world.endpoints.in_flight == 1)
        world.sendings.unmarks = False
        world.sendings.cancel(kept)
        world.plane.put(replace(subscription, dropped=(JOB,)))
        await world.plane.until_applied()
        world.endpoints.gate.set()
        # What is new does not wait for the database; the commit, which would pass them, does.
        await world.publish(topic, b"new")
        await world.endpoints.until(lambda: world.endpoints.bodies()[-1] == b"new")
        await until(world.sendings.changed, lambda: world.sendings.refused > 0)
    delivered = again(world, subscription, 10)
    copies = {world.memory.records(topic.name)[sent.offset].value: sent for sent in kept.sent}
    left = [(0, copies[b"%d" % n].offset) for n in range(10) if b"%d" % n not in delivered]
    assert (len(left), kept.unmarked) == (9, [])
    committed = world.memory.commits[subscription.group][Partition(topic.name, 0)]
    assert committed.offset == left[0][1]
    # It had no time to say so: the next one does, of all of them and of no other.
    world.sendings.unmarks = True
    async with world.worker("second"):
        await until(world.sendings.changed, lambda: len(kept.unmarked) == 9)
        await world.publish(topic, b"newer")
        await world.endpoints.until(lambda: world.endpoints.bodies()[-1] == b"newer")
    assert kept.unmarked == left
    assert again(world, subscription, 10) == [*delivered, b"newer"]
    assert world.memory.commits[subscription.group][Partition(topic.name, 0)].offset == 22


async def test_messages_of_one_key_come_again_in_their_order(world: World) -> None:
    topic = await world.topic(partitions=4)
    subscription = await world.subscribe(topic, rate=FAST)
    subscription = world.plane.put(replace(subscription, ordering=Ordering.KEY))
    for number in range(60):
        partition_key = b"%d" % (number % 5)
        await world.publish(topic, partition_key + b" %02d" % number, key=partition_key)
    failed: set[bytes] = set()

    def reply(attempt: Attempt) -> Outcome:
        # Each key fails once in the middle: what is behind it waits.
        if attempt.body.endswith(b"30") and attempt.body not in failed:
            failed.add(attempt.body)
            return Retry(reason="not now")
        return Delivered(status=200)

    async with world.worker():
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 60)
        world.endpoints.replies[subscription.endpoint] = reply
        kept = await retransmission(world, topic, subscription, *await all_of(world, topic))
        await until_ended(world, kept, RetransmissionState.DONE)
    once = list(dict.fromkeys(again(world, subscription, 60)))
    assert len(once) == 60
    for key in range(5):
        own = [body for body in once if body.startswith(b"%d " % key)]
        assert own == sorted(own)


async def test_the_retransmission_of_a_deleted_subscription_fails(world: World) -> None:
    topic = await world.topic(partitions=1)
    subscription = await world.subscribe(topic, rate=FAST)
    await world.publish(topic, b"1")
    async with world.worker():
        world.plane.delete(subscription)
        kept = await retransmission(world, topic, subscription, a_run(0, 1))
        await until_ended(world, kept, RetransmissionState.FAILED)
    assert kept.reason == "Its subscription is deleted"


async def test_the_retransmission_of_a_message_that_the_topic_takes_no_more_fails(
    world: World,
) -> None:
    topic = await world.topic(partitions=1)
    subscription = await world.subscribe(topic, rate=FAST)
    await world.publish(topic, b"1")
    async with world.worker():
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 1)
        world.memory.compacted.add(topic.name)
        kept = await retransmission(world, topic, subscription, a_run(0, 1))
        await until_ended(world, kept, RetransmissionState.FAILED)
    assert "without a key" in (kept.reason or "")


async def test_what_the_log_has_no_more_is_left_out(world: World) -> None:
    topic = await world.topic(partitions=1)
    subscription = await world.subscribe(topic, rate=FAST)
    await world.publish(topic, *(b"%d" % n for n in range(10)))
    async with world.worker():
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 10)
        world.memory.trim(Partition(topic.name, 0), 8)
        kept = await retransmission(world, topic, subscription, a_run(0, 10))
        await until_ended(world, kept, RetransmissionState.DONE)
    assert sorted(again(world, subscription, 10)) == [b"8", b"9"]


def archived_records(count: int) -> list[Record]:
    """Of a partition, as the archive has them: nothing is left out of what came with them."""
    return [
        Record(
            offset, 1_000, b"key", b"old %d" % offset,
            [(HEADER_ID, b"m-%d" % offset), (HEADER_TIMESTAMP, b"1000"), (b"h-x", b"a")],
        )
        for offset in range(count)
    ]  # fmt: skip


async def test_what_only_the_archive_has_comes_again_before_what_the_log_has(world: World) -> None:
    topic = await world.topic(partitions=1)
    subscription = await world.subscribe(topic, rate=FAST)
    await world.publish(topic, *(b"new %d" % n for n in range(10)))
    async with world.worker():
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 10)
        world.memory.trim(Partition(topic.name, 0), 8)
        runs = [replace(a_run(2, 5), archived=True), replace(a_run(6, 8), archived=True)]
        kept = await retransmission(world, topic, subscription, *runs, a_run(8, 10))
        kept.archived = {0: archived_records(8)}
        await until_ended(world, kept, RetransmissionState.DONE)
    came = again(world, subscription, 10)
    assert sorted(came) == [b"new 8", b"new 9", *(b"old %d" % n for n in (2, 3, 4, 6, 7))]
    assert [sent.source_offset for sent in kept.sent] == [2, 3, 4, 6, 7, 8, 9]
    chunk = await world.log.fetch(Partition(topic.name, 0), 10, bytes_max=1_000_000)
    first = Message(chunk.records[0], Partition(topic.name, 0))
    assert (first.id, first.key, first.propagated) == (b"m-2", b"key", [(b"x", b"a")])


async def test_archived_records_that_were_appended_and_not_recorded_come_once(
    world: World,
) -> None:
    topic = await world.topic(partitions=1)
    subscription = await world.subscribe(topic, rate=FAST)
    await world.publish(topic, *(b"%d" % n for n in range(10)))
    async with world.worker("first"):
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 10)
        world.memory.trim(Partition(topic.name, 0), 10)
        # It appends, and dies before it can say so.
        world.sendings.losing = True
        kept = await retransmission(
            world, topic, subscription, replace(a_run(0, 10), archived=True)
        )
        kept.archived = {0: archived_records(10)}
        await world.endpoints.until(lambda: len(world.endpoints.attempts) > 10)
    world.sendings.losing = False
    world.sendings.of("first").abandon()
    async with world.worker("second"):
        await until_ended(world, kept, RetransmissionState.DONE)
    assert await in_log(world, topic) == 10
    assert len(kept.sent) == len(set(kept.sent)) == 10
    assert set(again(world, subscription, 10)) == {b"old %d" % n for n in range(10)}


async def test_discards_come_again_with_the_body_that_was_kept(world: World) -> None:
    topic = await world.topic(partitions=1)
    subscription = await world.subscribe(topic, rate=FAST)
    world.endpoints.replies[subscription.endpoint] = lambda _: Discarded(reason="no")
    await world.publish(topic, b"1", b"2")
    async with world.worker():
        await world.plane.until(lambda: len(world.plane.undelivered) == 2)
        world.endpoints.replies.clear()
        world.memory.trim(Partition(topic.name, 0), 2)
        runs = []
        for row, discard in enumerate(world.plane.undelivered, start=1):
            world.sendings.discards[row] = discard
            runs.append(replace(a_run(discard.offset, discard.offset + 1), undelivered=row))
        kept = await retransmission(world, topic, subscription, *runs)
        await until_ended(world, kept, RetransmissionState.DONE)
    assert sorted(again(world, subscription, 2)) == [b"1", b"2"]
    assert {sent.source_offset for sent in kept.sent} == {0, 1}


@pytest.mark.parametrize(("share", "rate"), [(0.1, None), (1.0, 10)])
async def test_no_more_is_appended_than_the_subscriber_keeps_up_with(
    world: World, share: float, rate: float | None
) -> None:
    topic = await world.topic(partitions=1)
    subscription = await world.subscribe(topic, rate=100)
    await world.publish(topic, *(b"%d" % n for n in range(40)))
    async with world.worker():
        await world.endpoints.until(lambda: len(world.endpoints.attempts) == 40)
        world.endpoints.gate.clear()
        kept = await retransmission(
            world, topic, subscription, a_run(0, 40), share=share, rate=rate
        )
        most = ahead_max(10)
        await until(world.sendings.changed, lambda: len(kept.sent) == most)
        looks = kept.finished

        def looked() -> bool:
            nonlocal looks
            looks += 1
            return looks > 3

        await until(world.sendings.changed, looked)
        assert len(kept.sent) == most < 40
        world.endpoints.gate.set()
        world.sendings.cancel(kept)
