"""Reading in a rack, against a leader that names another replica, and a replica that fails."""

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Final

import pytest
from kafka.protocol.consumer import FetchRequest as KafkaRequest
from kafka.protocol.consumer import FetchResponse

from app.domain.errors import LogUnavailableError
from app.domain.message import NewRecord, Partition
from app.log.interface import Bounds, Chunk, LogStats
from app.log.kafka.partition_leaders import LeaderCache, PartitionLeaders
from app.log.kafka.protocol.compression import Compression
from app.log.kafka.protocol.encoding import batch_body, encode_record, whole_batch
from app.log.kafka.protocol.fetches import FETCH, LEADER_FETCH, NO_REPLICA, ReadOptions
from app.log.kafka.protocol.wire import FRAME_LENGTH
from app.log.kafka.reader import KafkaReader
from app.log.kafka.tail import KafkaTail
from tests.contract.logs import EVENTUALLY, values
from tests.integration.log.brokers import PLAIN, serving

HERE = Partition("t", 0)
RACK = "near"
LEADER, FOLLOWER = 1, 2
OK, OUT_OF_RANGE, NOT_LEADER, HANG_UP = 0, 1, 6, -100
SENT = ["a", "b", "c"]

# The bounds, which others ask for by these, are as they are.
NOBODY: Final[Any] = None

Read = Callable[["Replica", "Replica"], Awaitable[Chunk]]
"""Reads once from a leader and its follower."""


class Replica:
    """Answers fetches by `code`; a leader names `other` to those who say where they are."""

    def __init__(self, code: int = OK, other: int = NO_REPLICA) -> None:
        self.code = code
        self.other = other
        self.offsets: list[int] = []
        self.versions: list[int] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.read(FRAME_LENGTH.size):
            frame = await reader.readexactly(*FRAME_LENGTH.unpack(head))
            _, version = struct.unpack_from(">hh", frame)
            request = KafkaRequest.decode(frame, version=version, header=True)
            self.versions.append(version)
            self.offsets += [
                each.fetch_offset for topic in request.topics for each in topic.partitions
            ]
            if self.code == HANG_UP:
                writer.close()
                return
            answer = self._answer(request)
            writer.write(FRAME_LENGTH.pack(len(answer)) + answer)

    def _answer(self, request: KafkaRequest) -> bytes:
        topic = FetchResponse.FetchableTopicResponse
        asked = [each for topic in request.topics for each in topic.partitions]
        version = request.header.request_api_version
        has_rack = version == FETCH[1] and request.rack_id == RACK
        named = self.other if has_rack else NO_REPLICA
        parts = [
            topic.PartitionData(
                partition_index=each.partition,
                error_code=self.code,
                high_watermark=len(SENT),
                last_stable_offset=len(SENT),
                log_start_offset=0,
                aborted_transactions=None,
                preferred_read_replica=named,
                records=None if self.code or named != NO_REPLICA else self._records(each),
            )
            for each in asked
        ]
        response = FetchResponse(
            throttle_time_ms=0,
            error_code=0,
            session_id=0,
            responses=[topic(topic=HERE.topic, partitions=parts)],
            version=version,
        )
        return FRAME_LENGTH.pack(request.header.correlation_id) + bytes(
            response.encode(version=version)
        )

    def _records(self, asked: KafkaRequest) -> bytes | None:
        if asked.fetch_offset >= len(SENT):
            return None
        records = [encode_record(NewRecord(value=value.encode()), 0) for value in SENT]
        return whole_batch(batch_body(records), Compression.NONE)


class Reader(KafkaReader):
    """Without kafka-python."""

    async def bounds(self, partitions: Collection[Partition]) -> Mapping[Partition, Bounds]:
        return dict.fromkeys(partitions, Bounds(0, len(SENT)))


@asynccontextmanager
async def reading(leader: Replica, follower: Replica) -> AsyncIterator[tuple[Reader, LeaderCache]]:
    async with serving(leader.serve) as first, serving(follower.serve) as second:

        async def look(topics: Collection[str]) -> PartitionLeaders:
            addresses = {LEADER: first, FOLLOWER: second}
            return PartitionLeaders({each: {0: LEADER} for each in topics}, addresses)

        places = LeaderCache(look)
        reader = Reader(
            places,
            io=NOBODY,
            client=NOBODY,
            credentials=PLAIN,
            stats=LogStats(),
            options=ReadOptions(rack=RACK),
        )
        try:
            yield reader, places
        finally:
            reader.close()


async def fetched(leader: Replica, follower: Replica) -> Chunk:
    async with reading(leader, follower) as (reader, _):
        return await reader.fetch(HERE, 0, bytes_max=1 << 20, wait=timedelta())


async def tailed(leader: Replica, follower: Replica) -> Chunk:
    async with (
        reading(leader, follower) as (reader, places),
        KafkaTail(places, reader, LogStats()) as tail,
        asyncio.timeout(EVENTUALLY),
    ):
        tail.follow(HERE, 0)
        (chunk,) = await tail.chunks()
        return chunk


@pytest.mark.parametrize("read", [fetched, tailed])
async def test_the_replica_that_the_leader_names_is_read(read: Read) -> None:
    leader, follower = Replica(other=FOLLOWER), Replica()
    assert values((await read(leader, follower)).records) == SENT
    assert follower.offsets[0] == 0
    assert leader.offsets == [0]


@pytest.mark.parametrize("read", [fetched, tailed])
@pytest.mark.parametrize("code", [OUT_OF_RANGE, NOT_LEADER, HANG_UP])
async def test_where_that_fails_or_is_behind_the_leader_is_read_and_nothing_passed_over(
    read: Read, code: int
) -> None:
    leader, follower = Replica(other=FOLLOWER), Replica(code)
    chunk = await read(leader, follower)
    assert values(chunk.records) == SENT
    assert not chunk.gap
    assert follower.offsets == [0]
    # Once with a rack, once without.
    assert leader.offsets[:2] == [0, 0]
    assert leader.versions[:2] == [FETCH[1], LEADER_FETCH[1]]
    assert follower.versions == [FETCH[1]]


@pytest.mark.parametrize("read", [fetched, tailed])
@pytest.mark.parametrize("named", [LEADER, FOLLOWER])
async def test_replicas_that_name_each_other_or_themselves_are_read_all_the_same(
    read: Read, named: int
) -> None:
    leader, follower = Replica(other=named), Replica(other=LEADER)
    async with asyncio.timeout(EVENTUALLY):
        assert values((await read(leader, follower)).records) == SENT
    # The leader names a replica once, and is not asked again at once.
    assert leader.offsets[:2] == [0, 0][: 1 + (named == LEADER)]


async def test_no_gap_is_reported_of_what_the_partition_has() -> None:
    async with reading(Replica(), Replica()) as (reader, _):
        with pytest.raises(LogUnavailableError, match="behind"):
            await reader.gap(HERE, len(SENT))
        gap = await reader.gap(HERE, len(SENT) + 1)
    assert (gap.gap, gap.next_offset) == (True, 0)
