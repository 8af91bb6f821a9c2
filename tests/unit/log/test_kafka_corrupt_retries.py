"""A partition with a batch that cannot be decoded is read again at a steady pace."""

import asyncio
import math
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from app.domain.errors import LogUnreadableError
from app.domain.message import Partition
from app.log.interface import Chunk, LogStats
from app.log.kafka.fetch_requests import Fetcher
from app.log.kafka.names import Names
from app.log.kafka.partition_leaders import LeaderCache, PartitionLeaders, ReadReplicas, ReadSource
from app.log.kafka.protocol.compression import Compression
from app.log.kafka.protocol.decoder import CorruptBatchError
from app.log.kafka.protocol.encoding import BatchBody, varint, whole_batch
from app.log.kafka.protocol.fetches import NO_REPLICA, FetchAnswer, FetchedPart, FetchRequest
from app.log.kafka.reader import KafkaReader, paused
from app.log.kafka.tail import KafkaTail
from tests.fakes.leaping_loop import LeapingLoop, passes

HERE, BESIDE = Partition("t", 0), Partition("t", 1)
RETRY_S = 5.0
ANSWER_S = 0.003
RECORD = b"\0" + varint(0) * 2 + varint(-1) * 2 + varint(0)
GOOD = whole_batch(BatchBody(1, 0, 0, varint(len(RECORD)) + RECORD), Compression.NONE)
# The checksum is wrong.
CORRUPT = GOOD[:-1] + b"\x02"


class Cluster(Fetcher):
    """A broker without records, except in `HERE`, whose first batch may be corrupt."""

    def __init__(self) -> None:
        self.batch = CORRUPT
        self.reads = 0
        self._session: dict[Partition, int] = {}
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    async def fetch(
        self, source: ReadSource, request: FetchRequest, *, patience_s: float = math.inf
    ) -> FetchAnswer:
        assert (source.node, patience_s) == (1, math.inf)
        await passes(max(request.wait_ms / 1000, ANSWER_S))
        positions = self._in_session(request) if request.wait_ms else request.positions
        if self.batch and positions.get(HERE) == 0:
            self.reads += 1
            return FetchAnswer(0, 1, [FetchedPart(HERE, 0, self.batch, (), NO_REPLICA)])
        return FetchAnswer(0, 1, [])

    def _in_session(self, request: FetchRequest) -> Mapping[Partition, int]:
        if request.session == (0, 0):
            self._session.clear()
        for each in request.forgotten:
            self._session.pop(each, None)
        self._session |= request.positions
        return self._session

    async def look(self, topics: Collection[str]) -> PartitionLeaders:
        return PartitionLeaders({each: {0: 1, 1: 1} for each in topics}, {})

    def close(self) -> None:
        self._closed = True


class Reader(KafkaReader):
    """One that has no other connections than to the cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.fetcher = cluster
        self.replicas = ReadReplicas("", clock=asyncio.get_running_loop().time)

    def another_fetcher(self) -> Fetcher:
        return self.fetcher


@asynccontextmanager
async def tailing(cluster: Cluster) -> AsyncIterator[KafkaTail]:
    async with KafkaTail(LeaderCache(cluster.look), Reader(cluster), LogStats()) as tail:
        yield tail


@pytest.mark.parametrize("beside", [False, True])
def test_a_corrupt_batch_is_read_and_logged_every_five_seconds_however_long(
    *, beside: bool
) -> None:
    async def scenario() -> None:
        cluster = Cluster()
        async with tailing(cluster) as tail:
            if beside:
                tail.follow(BESIDE, 0)
                await passes(RETRY_S)
            tail.follow(HERE, 0)
            await passes(RETRY_S / 2)
            for reads in range(1, 30):
                with capture_logs() as logs:
                    assert cluster.reads == reads
                    await passes(RETRY_S)
                assert [each["event"] for each in logs] == ["kafka_batch_corrupt"]

    with asyncio.Runner(loop_factory=LeapingLoop) as runner:
        runner.run(scenario())


def test_a_batch_that_becomes_corrupt_while_it_is_polled_has_one_retry() -> None:
    async def scenario() -> None:
        cluster = Cluster()
        cluster.batch = b""
        async with tailing(cluster) as tail:
            tail.follow(HERE, 0)
            tail.follow(BESIDE, 0)
            await passes(RETRY_S)
            cluster.batch = CORRUPT
            await passes(10.5 * RETRY_S)
            assert cluster.reads == 11

    with asyncio.Runner(loop_factory=LeapingLoop) as runner:
        runner.run(scenario())


def test_a_batch_that_was_replaced_is_read_once_and_was_reported_before() -> None:
    async def scenario() -> None:
        cluster = Cluster()
        async with tailing(cluster) as tail:
            tail.follow(HERE, 0)
            await passes(3.5 * RETRY_S)
            cluster.batch = GOOD
            *corrupt, chunk = await tail.chunks()
            while chunk.corrupt:
                corrupt.append(chunk)
                (chunk,) = await tail.chunks()
            assert {(each.offset, each.next_offset) for each in corrupt} == {(0, 0)}
            assert {each.corrupt for each in corrupt} == {"checksum of the batch at 0 is wrong"}
            assert (chunk.partition, chunk.next_offset) == (HERE, 1)
            reads = cluster.reads
            await passes(10 * RETRY_S)
            assert cluster.reads == reads

    with asyncio.Runner(loop_factory=LeapingLoop) as runner:
        runner.run(scenario())


async def test_a_single_read_of_a_corrupt_batch_ends_with_an_error_of_its_own() -> None:
    with pytest.raises(LogUnreadableError, match="checksum"):
        await paused(0.0, CorruptBatchError("the checksum is wrong"))


def test_a_chunk_keeps_all_but_the_namespace() -> None:
    named = Names("shop.").chunk(Chunk(Partition("shop.t", 0), 5, 5, (), 0, corrupt="checksum"))
    assert named == Chunk(HERE, 5, 5, (), 0, corrupt="checksum")


def test_a_partition_that_is_no_longer_followed_is_not_tried_again() -> None:
    async def scenario() -> None:
        cluster = Cluster()
        async with tailing(cluster) as tail:
            tail.follow(HERE, 0)
            await passes(RETRY_S / 2)
            tail.unfollow(HERE)
            await passes(10 * RETRY_S)
            assert cluster.reads == 1

    with asyncio.Runner(loop_factory=LeapingLoop) as runner:
        runner.run(scenario())
