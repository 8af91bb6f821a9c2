"""Reading in a rack for hours: when leaders choose again, and what follows."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager

import pytest

from app.domain.message import Partition
from app.log.interface import LogStats
from app.log.kafka.client import NotSentError
from app.log.kafka.fetch_requests import Fetcher
from app.log.kafka.partition_leaders import (
    AVOIDED_FOR_S,
    CHOSEN_FOR_S,
    LeaderCache,
    PartitionLeaders,
    ReadReplicas,
    ReadSource,
)
from app.log.kafka.protocol.fetches import (
    NO_REPLICA,
    FetchAnswer,
    FetchedPart,
    FetchRequest,
)
from app.log.kafka.reader import KafkaReader
from app.log.kafka.tail import KafkaTail
from tests.fakes.leaping_loop import LeapingLoop, passes

HERE = Partition("t", 0)
RACK = "near"
FIRST, NEAR, THIRD = 1, 2, 3
REPLICA = ReadSource(NEAR, is_leader=False)
HOUR_S = 3600.0
A_WHILE_S = 10.0
ANSWER_S = 0.003


class Cluster(Fetcher):
    """Brokers without records. Each answers, and the leader alone names a replica."""

    def __init__(self) -> None:
        self.leader, self.named = FIRST, NEAR
        self.near_is_up = True
        self.asked: list[ReadSource] = []
        self.looks = self.names = 0
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    async def fetch(
        self, source: ReadSource, request: FetchRequest, *, patience_s: float = math.inf
    ) -> FetchAnswer:
        assert patience_s == math.inf
        self.asked.append(source)
        await passes(max(request.wait_ms / 1000, ANSWER_S))
        if source.by_rack and source.node == self.leader and self.named != NO_REPLICA:
            self.names += 1
            return FetchAnswer(0, 0, [FetchedPart(HERE, 0, b"", (), self.named)])
        if source.node == NEAR and not self.near_is_up:
            raise NotSentError
        return FetchAnswer(0, 1, [])

    async def look(self, topics: Collection[str]) -> PartitionLeaders:
        self.looks += 1
        return PartitionLeaders({each: {0: self.leader} for each in topics}, {})

    def close(self) -> None:
        self._closed = True


class Reader(KafkaReader):
    """One that has no other connections than to the cluster."""

    def __init__(self, cluster: Cluster, rack: str) -> None:
        self.fetcher = cluster
        self.replicas = ReadReplicas(rack, clock=asyncio.get_running_loop().time)

    def another_fetcher(self) -> Fetcher:
        return self.fetcher


@asynccontextmanager
async def tailing(cluster: Cluster, rack: str = RACK) -> AsyncIterator[KafkaTail]:
    places = LeaderCache(cluster.look)
    async with KafkaTail(places, Reader(cluster, rack), LogStats()) as tail:
        tail.follow(HERE, 0)
        await passes(A_WHILE_S)
        yield tail


def leaping(scenario: Callable[[LeapingLoop], Awaitable[None]]) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, LeapingLoop)
        await scenario(loop)

    with asyncio.Runner(loop_factory=LeapingLoop) as runner:
        runner.run(run())


def test_a_replica_that_is_down_is_tried_again_once_in_a_while_however_long() -> None:
    async def scenario(loop: LeapingLoop) -> None:
        cluster = Cluster()
        cluster.near_is_up = False
        async with tailing(cluster):
            for tries in range(1, 8):
                assert cluster.names == tries
                assert loop.running_timers(longer_than_s=1.0) == 1
                await passes(AVOIDED_FOR_S + 1.0)

    leaping(scenario)


def test_failures_of_a_replica_leave_no_timers_behind() -> None:
    async def scenario(loop: LeapingLoop) -> None:
        cluster = Cluster()
        async with tailing(cluster) as tail:
            for _ in range(5):
                cluster.near_is_up = False
                await passes(A_WHILE_S)
                cluster.near_is_up = True
                await passes(CHOSEN_FOR_S)
                assert cluster.asked[-1] == REPLICA
                assert loop.running_timers(longer_than_s=1.0) == 1
            before = cluster.names
            await passes(HOUR_S)
            assert cluster.names - before <= HOUR_S / CHOSEN_FOR_S
            tail.follow(HERE, 0)
            await passes(A_WHILE_S)
            assert loop.running_timers(longer_than_s=1.0) == 1
            tail.unfollow(HERE)
            assert loop.running_timers(longer_than_s=1.0) == 0
            tail.follow(HERE, 0)
            await passes(A_WHILE_S)
        assert loop.running_timers(longer_than_s=1.0) == 0

    leaping(scenario)


@pytest.mark.parametrize("named", [NEAR, NO_REPLICA])
def test_a_new_leader_chooses_though_the_old_one_answers(named: int) -> None:
    async def scenario(_: LeapingLoop) -> None:
        cluster = Cluster()
        cluster.named = named
        async with tailing(cluster):
            cluster.leader, cluster.named = THIRD, NEAR
            await passes(CHOSEN_FOR_S)
            assert ReadSource(THIRD, by_rack=True) in cluster.asked
            assert cluster.asked[-1] == REPLICA

    leaping(scenario)


def test_without_a_rack_the_leader_is_read_and_looked_up_once() -> None:
    async def scenario(loop: LeapingLoop) -> None:
        cluster = Cluster()
        async with tailing(cluster, rack=""):
            await passes(HOUR_S)
            assert loop.running_timers(longer_than_s=1.0) == 0
        assert set(cluster.asked) == {ReadSource(FIRST)}
        assert cluster.looks == 1

    leaping(scenario)
