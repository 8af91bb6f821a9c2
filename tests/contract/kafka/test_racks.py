"""A reader in a rack: it reads the replica there, and the leader where that one fails."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from app.domain.message import NewRecord, Partition
from app.log.interface import Chunk, MessageLog, Tail
from app.log.kafka import ReadOptions, kafka_log
from tests.contract.logs import EVENTUALLY, TOPIC, a_topic, eventually, read_values, values
from tests.servers.kafka import KafkaBroker

PARTITIONS = 4


@pytest.fixture
async def log(
    brokers: tuple[KafkaBroker, KafkaBroker], kafka_namespace: str
) -> AsyncIterator[MessageLog]:
    """One that reads in the rack of the second broker."""
    async with kafka_log(
        ",".join(broker.bootstrap for broker in brokers),
        namespace=kafka_namespace,
        replication_factor=2,
        options=ReadOptions(rack=brokers[1].rack),
    ) as opened:
        yield opened


async def published(log: MessageLog, *found: str) -> None:
    # Without a key they go to one partition after the other.
    for value in found:
        await log.append(TOPIC, [NewRecord(value=value.encode())])


class Reading:
    """What a tail reads, from the beginning of all partitions on."""

    def __init__(self, tail: Tail, partitions: list[Partition]) -> None:
        self._tail = tail
        self.chunks: list[Chunk] = []
        for partition in partitions:
            tail.follow(partition, 0)

    async def until(self, *expected: str) -> None:
        """Read until all of these came; each once, and nothing else, from offset to offset."""
        async with asyncio.timeout(2 * EVENTUALLY):
            while len(found := self.values()) < len(expected):
                self.chunks += await self._tail.chunks()
        assert sorted(found) == sorted(expected)
        ends: dict[Partition, int] = {}
        for chunk in self.chunks:
            assert not chunk.gap
            assert chunk.offset == ends.get(chunk.partition, 0)
            ends[chunk.partition] = chunk.next_offset

    def values(self) -> list[str]:
        return [value for chunk in self.chunks for value in values(chunk.records)]


@pytest.mark.long
async def test_the_near_replica_is_read_and_the_leader_when_it_is_killed(
    log: MessageLog, brokers: tuple[KafkaBroker, KafkaBroker]
) -> None:
    await log.create_topic(a_topic(partitions=PARTITIONS))
    partitions = list(await log.partitions(TOPIC))
    _, near = brokers
    first = [f"first {n}" for n in range(20)]
    await published(log, *first)
    async with log.tail() as tail:
        reading = Reading(tail, partitions)
        await reading.until(*first)

        async def reads_near() -> bool:
            return log.stats.follower_fetches > 0

        await eventually(reads_near)
        second = [f"second {n}" for n in range(20)]
        before = log.stats.follower_fetches
        await published(log, *second)
        await reading.until(*first, *second)
        assert log.stats.follower_fetches > before

        await asyncio.to_thread(near.kill)
        third = [f"third {n}" for n in range(20)]

        async def stored() -> bool:
            left = [value for value in third if value not in acknowledged]
            for value in left:
                await log.append(TOPIC, [NewRecord(value=value.encode())])
                acknowledged.append(value)
            return True

        acknowledged: list[str] = []
        await eventually(stored)
        await reading.until(*first, *second, *third)
        await asyncio.to_thread(near.restart)
        await published(log, "last")
        await reading.until(*first, *second, *third, "last")


async def test_single_reads_go_to_the_near_replica_too(log: MessageLog) -> None:
    await log.create_topic(a_topic(partitions=PARTITIONS))
    sent = [f"{n}" for n in range(20)]
    await published(log, *sent)
    found = [
        value for each in await log.partitions(TOPIC) for value in await read_values(log, each)
    ]
    assert sorted(found) == sorted(sent)
    assert log.stats.follower_fetches > 0
