"""The contract of every message log: the tail."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from app.domain.message import NewRecord, Partition
from app.log.interface import MessageLog, Tail
from tests.contract.harness import Harness
from tests.contract.logs import EVENTUALLY, TOPIC, Collected, created, eventually, records


@pytest.fixture
async def tail(log: MessageLog) -> AsyncIterator[Tail]:
    async with log.tail() as opened:
        yield opened


async def test_a_tail_reads_what_is_there_and_what_comes(log: MessageLog, tail: Tail) -> None:
    (partition,) = await created(log)
    await log.append(TOPIC, records("a", "b"))
    read = Collected(tail)
    tail.follow(partition, 1)
    await read.until(partition, "b")
    await log.append(TOPIC, records("c"))
    await read.until(partition, "b", "c")


async def test_a_tail_hears_of_another_process_s_appends_at_once(
    log: MessageLog, tail: Tail, harness: Harness
) -> None:
    (partition,) = await created(log)
    read = Collected(tail)
    tail.follow(partition, 0)
    async with harness.opened() as other:
        await other.append(TOPIC, records("a"))
        await read.until(partition, "a")
        await other.append(TOPIC, records("b"))
        await read.until(partition, "a", "b")


async def test_a_tail_follows_many_partitions_and_reads_each_record_once(
    log: MessageLog, tail: Tail
) -> None:
    partitions = await created(log, partitions=40)
    read = Collected(tail)
    for partition in partitions:
        tail.follow(partition, 0)
    sent = [f"{n}" for n in range(2000)]
    async with asyncio.TaskGroup() as tasks, asyncio.timeout(2 * EVENTUALLY):
        for n in range(0, 2000, 50):
            tasks.create_task(log.append(TOPIC, records(*sent[n : n + 50])))
        while sum(map(len, read.values.values())) < 2000:
            await read.once()
    found = [value for values in read.values.values() for value in values]
    assert sorted(found, key=int) == sent


async def test_chunks_of_a_partition_come_in_order_and_cover_every_offset(
    log: MessageLog, tail: Tail
) -> None:
    (partition,) = await created(log)
    for _ in range(30):
        await log.append(TOPIC, [NewRecord(value=bytes(50_000)) for _ in range(4)])
    tail.follow(partition, 0)
    offset = 0
    async with asyncio.timeout(EVENTUALLY):
        while offset < 120:
            for chunk in await tail.chunks():
                assert chunk.offset == offset
                assert [r.offset for r in chunk.records] == list(range(offset, chunk.next_offset))
                assert chunk.size < 4 << 20
                offset = chunk.next_offset


async def test_a_newly_followed_partition_is_read_while_a_long_poll_is_out(
    log: MessageLog, tail: Tail
) -> None:
    idle, busy = await created(log, partitions=2)
    while not (await log.bounds([busy]))[busy].end:
        await log.append(TOPIC, records("x"))
    bounds = await log.bounds([idle, busy])
    tail.follow(idle, bounds[idle].end)
    async with asyncio.TaskGroup() as tasks:
        polling = tasks.create_task(tail.chunks())
        done, _ = await asyncio.wait([polling], timeout=1.15)
        assert not done
        tail.follow(busy, bounds[busy].end - 1)
        async with asyncio.timeout(EVENTUALLY):
            chunks = await polling
    assert [chunk.partition for chunk in chunks] == [busy]


async def test_following_again_moves_the_tail(log: MessageLog, tail: Tail) -> None:
    (partition,) = await created(log)
    await log.append(TOPIC, records("a", "b", "c"))
    read = Collected(tail)
    tail.follow(partition, 0)
    await read.until(partition, "a", "b", "c")
    tail.follow(partition, 1)
    await read.until(partition, "a", "b", "c", "b", "c")


async def test_a_tail_that_is_moved_while_it_reads_goes_on_where_it_was_moved_to(
    log: MessageLog, tail: Tail
) -> None:
    (partition,) = await created(log)
    await log.append(TOPIC, records(*map(str, range(100))))
    tail.follow(partition, 99)
    await Collected(tail).until(partition, "99")
    tail.follow(partition, 0)
    async with asyncio.TaskGroup() as tasks, asyncio.timeout(EVENTUALLY):
        reading = tasks.create_task(tail.chunks())
        # Once round the loop: now the request is out.
        await asyncio.wait([reading], timeout=0)
        tail.follow(partition, 50)
        chunks = list(await reading)
        while chunks[-1].offset != 50:
            chunks += await tail.chunks()
    assert chunks[-1].next_offset == 100


async def test_an_unfollowed_partition_is_not_read_any_more(log: MessageLog, tail: Tail) -> None:
    one, two = await created(log, partitions=2)
    read = Collected(tail)
    tail.follow(one, 0)
    tail.follow(two, 0)
    tail.unfollow(one)
    for _ in range(4):
        await log.append(TOPIC, records("x"))
    end = (await log.bounds([two]))[two].end
    await read.until(two, *["x"] * end)
    assert one not in read.values


async def test_a_tail_that_was_overtaken_by_retention_goes_on_at_the_start_of_the_log(
    log: MessageLog, tail: Tail, harness: Harness
) -> None:
    (partition,) = await created(log)
    await log.append(TOPIC, records(*map(str, range(6))))
    await harness.trim(partition, 4)

    async def trimmed() -> bool:
        return (await log.bounds([partition]))[partition].start == 4

    await eventually(trimmed)
    read = Collected(tail)
    tail.follow(partition, 2)
    await read.until(partition, "4", "5")
    assert read.gaps == {partition: 4}


async def test_a_partition_that_does_not_exist_yet_is_read_when_it_does(
    log: MessageLog, tail: Tail
) -> None:
    tail.follow(Partition(TOPIC, 0), 0)
    (partition,) = await created(log)
    await log.append(TOPIC, records("a"))
    await Collected(tail).until(partition, "a")


async def test_tails_do_not_disturb_each_other(log: MessageLog, tail: Tail) -> None:
    (partition,) = await created(log)
    await log.append(TOPIC, records("a", "b"))
    async with log.tail() as other:
        tail.follow(partition, 0)
        other.follow(partition, 1)
        await Collected(tail).until(partition, "a", "b")
        await Collected(other).until(partition, "b")


async def test_waiting_for_chunks_can_be_given_up_without_losing_any(
    log: MessageLog, tail: Tail
) -> None:
    (partition,) = await created(log)
    tail.follow(partition, 0)
    for timeout in (0.0, 0.01, 0.05):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(timeout):
                await tail.chunks()
    await log.append(TOPIC, records("a"))
    await Collected(tail).until(partition, "a")
