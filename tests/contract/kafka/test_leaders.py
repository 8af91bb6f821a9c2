"""Several brokers: each partition is written and read where its leader is, wherever that moves."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Collection, Sized
from contextlib import AsyncExitStack, suppress
from functools import partial

import pytest

from app.domain.catalogue.topic import Ack
from app.domain.durability import Copies
from app.domain.errors import LogUnavailableError
from app.domain.message import NewRecord, Partition
from app.log.interface import Assigned, Committed, LogStats, MessageLog
from app.log.kafka import ReadOptions, kafka_log
from app.log.kafka.fetch_requests import Fetcher
from app.log.kafka.partition_leaders import LeaderCache, PartitionLeaders, ReadSource
from app.log.kafka.protocol.fetches import FetchRequest
from tests.contract.logs import EVENTUALLY, TOPIC, a_topic, created, eventually, read_values
from tests.integration.log.brokers import PLAIN
from tests.servers.kafka import KafkaBroker

PARTITIONS = 6
NOT_LEADER = 6


@pytest.fixture
async def log(
    brokers: tuple[KafkaBroker, KafkaBroker], kafka_namespace: str
) -> AsyncIterator[MessageLog]:
    bootstrap = ",".join(broker.bootstrap for broker in brokers)
    async with kafka_log(bootstrap, namespace=kafka_namespace, replication_factor=2) as opened:
        yield opened


async def publish(log: MessageLog, value: str) -> None:
    """Append to every partition, trying again for as long as a leader is missing."""

    async def appended(key: bytes) -> bool:
        try:
            await log.append(TOPIC, [NewRecord(value=value.encode(), key=key)])
        except LogUnavailableError:
            return False
        return True

    # These keys reach all six partitions.
    keys = [b"%d" % n for n in range(40)]
    await asyncio.gather(*(eventually(partial(appended, key)) for key in keys))


async def appended_by_leader(log: MessageLog) -> bool:
    try:
        await log.append(TOPIC, [NewRecord(value=b"leader")], ack=Ack.LEADER)
    except LogUnavailableError:
        return False
    return True


async def test_processes_that_make_one_topic_at_once_all_have_it(
    brokers: tuple[KafkaBroker, KafkaBroker], kafka_namespace: str
) -> None:
    """As workers make their streams, when several start on a fresh cluster."""
    async with AsyncExitStack() as stack:
        logs = [
            await stack.enter_async_context(
                kafka_log(broker.bootstrap, namespace=kafka_namespace, replication_factor=2)
            )
            for broker in brokers * 4
        ]
        for round_ in range(2):
            name = f"shop.orders{round_}"
            await asyncio.gather(*(log.create_topic(a_topic(name)) for log in logs))
            assert {len(await log.partitions(name)) for log in logs} == {4}
            await asyncio.gather(*(log.append(name, [NewRecord(value=b"x")]) for log in logs))


async def test_nothing_is_acknowledged_that_too_few_replicas_have(
    brokers: tuple[KafkaBroker, KafkaBroker], kafka_namespace: str
) -> None:
    bootstrap, second = brokers[0].bootstrap, brokers[1]
    async with kafka_log(
        bootstrap, namespace=kafka_namespace, replication_factor=2, min_insync_replicas=2
    ) as log:
        await log.create_topic(a_topic(partitions=1))
        assert await log.copies() == {TOPIC: Copies(2, 2)}
        await log.append(TOPIC, [NewRecord(value=b"both")])
        await asyncio.to_thread(second.kill)
        with pytest.raises(LogUnavailableError):
            await log.append(TOPIC, [NewRecord(value=b"one")])
        # The dead one may have been the leader.
        await eventually(partial(appended_by_leader, log))
        await asyncio.to_thread(second.restart)
        await publish(log, "both again")


async def test_nothing_is_stored_twice_when_a_leader_is_killed(
    log: MessageLog, brokers: tuple[KafkaBroker, KafkaBroker]
) -> None:
    """Nor lost: whatever was acknowledged is there once, in the order of its key."""
    _, second = brokers
    partitions = await created(log, partitions=PARTITIONS)
    await publish(log, "warm")
    acknowledged: list[str] = []
    is_over = asyncio.Event()

    async def publish_key(key: int) -> None:
        for n in itertools.count():
            value = f"{key} {n:06}"
            with suppress(LogUnavailableError):
                await log.append(TOPIC, [NewRecord(value=value.encode(), key=b"%d" % key)])
                acknowledged.append(value)
            if is_over.is_set():
                break

    async with asyncio.TaskGroup() as tasks:
        for key in range(20):
            tasks.create_task(publish_key(key))
        for act in (second.kill, second.restart, second.kill, second.restart):
            count = len(acknowledged)
            await asyncio.to_thread(act)
            await eventually(partial(_is_more_than, acknowledged, count + 1_000))
        is_over.set()
    found = [value for each in partitions for value in await read_values(log, each)]
    found = [value for value in found if value != "warm"]
    assert len(found) == len(set(found))
    assert set(acknowledged) <= set(found)
    for key in range(20):
        of_key = [value for value in found if value.startswith(f"{key} ")]
        assert of_key == sorted(of_key)


async def _is_more_than(values: Sized, count: int) -> bool:
    return len(values) > count


async def test_everything_goes_on_when_partitions_get_other_leaders(
    log: MessageLog, brokers: tuple[KafkaBroker, KafkaBroker]
) -> None:
    _, second = brokers
    partitions = await created(log, partitions=PARTITIONS)
    values: dict[Partition, list[str]] = {partition: [] for partition in partitions}
    async with log.tail() as tail, log.ownership(member="a") as ownership:

        async def read_until(value: str) -> None:
            async with asyncio.timeout(2 * EVENTUALLY):
                while not all(value in each for each in values.values()):
                    for chunk in await tail.chunks():
                        found = [(record.value or b"").decode() for record in chunk.records]
                        values[chunk.partition] += found

        ownership.subscribe([TOPIC])
        assert await anext(ownership.events()) == Assigned(frozenset(partitions))
        for partition in partitions:
            tail.follow(partition, 0)
        await publish(log, "both")
        await read_until("both")

        assert (await log.published({TOPIC: PARTITIONS}))[TOPIC] >= 40
        await asyncio.to_thread(second.kill)
        await publish(log, "one")
        await read_until("one")
        assert (await log.published({TOPIC: PARTITIONS}))[TOPIC] >= 80

        await asyncio.to_thread(second.restart)
        await publish(log, "both again")
        await read_until("both again")
        offsets = {"g": {partition: Committed(1) for partition in partitions}}

        async def committed() -> bool:
            # Who coordinates the group may still be loading it.
            return await log.commit(offsets) == {}

        await eventually(committed)
    for partition in partitions:
        assert await read_values(log, partition) == values[partition]
    assert await log.published({TOPIC: PARTITIONS}) == {TOPIC: sum(map(len, values.values()))}


async def test_who_reads_from_a_replaced_leader_is_told_so(
    log: MessageLog, brokers: tuple[KafkaBroker, KafkaBroker], kafka_namespace: str
) -> None:
    """A follower answers only those that read it as one: it may be behind."""
    (partition,) = await created(log)
    await log.append(TOPIC, [NewRecord(value=b"x")])
    named = partition._replace(topic=f"{kafka_namespace}{TOPIC}")
    request = FetchRequest(positions={named: 0}, bytes_max=1 << 20, wait_ms=0)

    async def look(_topics: Collection[str]) -> PartitionLeaders:
        addresses = {each: ("127.0.0.1", each_.port) for each, each_ in enumerate(brokers, 1)}
        return PartitionLeaders({}, addresses)

    places = LeaderCache(look)
    await places.leaders([named.topic])
    fetcher = Fetcher(places, credentials=PLAIN, options=ReadOptions(), stats=LogStats())

    async def codes(*, is_leader: bool) -> list[int]:
        answers = [
            await fetcher.fetch(ReadSource(node, is_leader=is_leader), request) for node in (1, 2)
        ]
        return sorted(part.error_code for answer in answers for part in answer.parts)

    async def all_are_read() -> bool:
        return await codes(is_leader=False) == [0, 0]

    try:
        await eventually(all_are_read)
        assert await codes(is_leader=True) == [0, NOT_LEADER]
    finally:
        fetcher.close()
