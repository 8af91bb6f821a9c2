"""Fetch and ListOffsets requests, and what their answers mean. On the I/O thread only."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest

from app.domain.message import Partition
from app.log.kafka.bridge import IoThread, Untyped
from app.log.kafka.client import (
    FAILED_TRY,
    NO_LEADER,
    Client,
    Deadline,
    Leaders,
    reason,
)

OFFSET_OUT_OF_RANGE: Final = 1
EARLIEST: Final = -2
LATEST: Final = -1
FETCH_BYTES_MAX: Final = 16 * 1024 * 1024

_NO_SESSION: Final = (0, -1)


def by_topic(partitions: Iterable[Partition]) -> Mapping[str, list[int]]:
    """Partition numbers per topic."""
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return topics


def fetch_request(
    positions: Mapping[Partition, int],
    *,
    bytes_max: int,
    wait_ms: int,
    session: tuple[int, int] = _NO_SESSION,
    forgotten: Collection[Partition] = (),
) -> Untyped:
    """A FetchRequest for Kafka topic names; `session` is (id, epoch) as in KIP-227."""
    kind = FetchRequest.FetchTopic
    topics: dict[str, list[Untyped]] = {}
    for (topic, index), offset in positions.items():
        part = kind.FetchPartition(
            partition=index,
            current_leader_epoch=-1,
            fetch_offset=offset,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            partition_max_bytes=bytes_max,
        )
        topics.setdefault(topic, []).append(part)
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=FETCH_BYTES_MAX,
        isolation_level=0,
        session_id=session[0],
        session_epoch=session[1],
        topics=[kind(topic=topic, partitions=parts) for topic, parts in topics.items()],
        forgotten_topics_data=[
            FetchRequest.ForgottenTopic(topic=topic, partitions=indexes)
            for topic, indexes in by_topic(forgotten).items()
        ],
        rack_id="",
        min_version=7,
        # From 13 on, topics go by id.
        max_version=12,
    )


def answers(response: Untyped) -> Iterable[tuple[Partition, Untyped]]:
    """Each partition's part of a FetchResponse."""
    for topic in response.responses:
        for part in topic.partitions:
            yield Partition(topic.topic, part.partition_index), part


async def grouped_by_leader(
    client: Client, partitions: Collection[Partition]
) -> tuple[Mapping[int, Sequence[Partition]], Sequence[Partition]]:
    """Partitions by the broker that leads them, and those that nobody leads now."""
    leaders = await client.leaders({each.topic for each in partitions})
    led: dict[int, list[Partition]] = {}
    homeless = []
    for partition in partitions:
        leader = _leader(leaders, partition)
        if leader == NO_LEADER:
            homeless.append(partition)
        else:
            led.setdefault(leader, []).append(partition)
    if homeless:
        client.forget({each.topic for each in homeless})
    return led, homeless


def _leader(leaders: Mapping[str, Leaders], partition: Partition) -> int:
    return leaders.get(partition.topic, {}).get(partition.index, NO_LEADER)


async def list_offsets(
    io: IoThread, client: Client, wanted: Mapping[Partition, int], *, seconds: float
) -> Mapping[Partition, int]:
    """The offset at EARLIEST, LATEST or a time in ms, of each; -1 where no record is that young.

    A partition that does not exist is left out. LogUnavailableError after `seconds`.
    """
    deadline = Deadline(io, seconds)
    search = _Search(io, client, wanted)
    while search.left:
        try:
            cause = await search.ask()
        except FAILED_TRY as error:
            cause = error
        if search.left:
            await deadline.pause(cause)
    return search.found


class _Search:
    """Offsets looked for at the leaders: what is `found`, and what is `left` to ask."""

    def __init__(self, io: IoThread, client: Client, wanted: Mapping[Partition, int]) -> None:
        self._io = io
        self._client = client
        self.left = dict(wanted)
        self.found: dict[Partition, int] = {}

    async def ask(self) -> object:
        """One round: moves what is answered from `left` to `found`; says why the rest is left."""
        known = await self._client.leaders({each.topic for each in self.left})
        for partition in [p for p in self.left if p.index not in known.get(p.topic, {})]:
            del self.left[partition]
        led, homeless = await grouped_by_leader(self._client, self.left)
        requests = {
            node: _offsets_request({each: self.left[each] for each in parts})
            for node, parts in led.items()
        }
        works = [partial(self._client.send, *each) for each in requests.items()]
        cause: object = f"no leader of {homeless}"
        for response in await self._io.gather(works):
            cause = self._take_in(response) or cause
        return cause

    def _take_in(self, response: Untyped) -> object:
        cause: object = None
        for topic in response.topics:
            for part in topic.partitions:
                partition = Partition(topic.name, part.partition_index)
                if part.error_code == 0:
                    self.found[partition] = part.offset
                    del self.left[partition]
                else:
                    cause = reason(part.error_code)
                    self._client.forget([partition.topic])
        return cause


def _offsets_request(wanted: Mapping[Partition, int]) -> Untyped:
    kind = ListOffsetsRequest.ListOffsetsTopic
    topics: dict[str, list[Untyped]] = {}
    for (topic, index), timestamp in wanted.items():
        part = kind.ListOffsetsPartition(
            partition_index=index, current_leader_epoch=-1, timestamp=timestamp
        )
        topics.setdefault(topic, []).append(part)
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=0,
        topics=[kind(name=topic, partitions=parts) for topic, parts in topics.items()],
        min_version=1,
        max_version=7,
    )
