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
    STALE_LEADER_CODES,
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
    found: dict[Partition, int] = {}
    left = dict(wanted)
    while left:
        try:
            cause: object = await _ask_offsets(io, client, left, found)
        except FAILED_TRY as error:
            cause = error
        if left:
            await deadline.pause(cause)
    return found


async def _ask_offsets(
    io: IoThread, client: Client, left: dict[Partition, int], found: dict[Partition, int]
) -> object:
    """One round: moves what is answered from `left` to `found`. Returns why the rest is left."""
    known = await client.leaders({each.topic for each in left})
    for partition in [each for each in left if each.index not in known.get(each.topic, {})]:
        del left[partition]
    led, homeless = await grouped_by_leader(client, left)
    requests = {
        node: _offsets_request({each: left[each] for each in parts}) for node, parts in led.items()
    }
    responses = await io.gather([partial(client.send, *each) for each in requests.items()])
    cause: object = f"no leader of {homeless}"
    for response in responses:
        for topic in response.topics:
            for part in topic.partitions:
                partition = Partition(topic.name, part.partition_index)
                if part.error_code == 0:
                    found[partition] = part.offset
                    del left[partition]
                else:
                    cause = reason(part.error_code)
                    client.forget([partition.topic])
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


def is_stale(code: int) -> bool:
    """Whether the broker is not (or not yet) the one to ask for this partition."""
    return code in STALE_LEADER_CODES
