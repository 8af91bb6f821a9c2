"""Looks up offsets by time at the leaders of partitions. Runs only on kafka-python's I/O thread."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from kafka.protocol.consumer import ListOffsetsRequest

from app.domain.message import Partition
from app.log.kafka.bridge import IoThread, Untyped
from app.log.kafka.client import FAILED_TRY, Client, Deadline, reason
from app.log.kafka.partition_leaders import grouped

EARLIEST: Final = -2
LATEST: Final = -1


async def list_offsets(
    io: IoThread,
    client: Client,
    wanted: Mapping[Partition, int],
    *,
    seconds: float,
    isolation_level: int = 0,
) -> Mapping[Partition, int]:
    """Return, for each partition, the offset that `wanted` asks for.

    `wanted` has EARLIEST for the first offset, LATEST for the next offset, or a time in
    milliseconds for the first offset at or after this time. This offset is -1 if no record is at or
    after the time. `isolation_level` decides whether records of open transactions count. A
    partition that does not exist is left out.

    Raises:
        LogUnavailableError: The search took longer than `seconds`.
    """
    deadline = Deadline(io, seconds)
    search = _Search(io, client, wanted, isolation_level=isolation_level)
    while search.left:
        try:
            cause = await search.ask()
        except FAILED_TRY as error:
            cause = error
        if search.left:
            await deadline.pause(cause)
    return search.found


class _Search:
    """A search for offsets at the leaders.

    `found` has the offsets that were found so far, and `left` has the other partitions.
    """

    def __init__(
        self, io: IoThread, client: Client, wanted: Mapping[Partition, int], *, isolation_level: int
    ) -> None:
        self._io = io
        self._client = client
        self._isolation_level = isolation_level
        self.left = dict(wanted)
        self.found: dict[Partition, int] = {}

    async def ask(self) -> object:
        """Query all leaders once. Move each partition with a result from `left` to `found`.

        Returns:
            The reason why some partitions have no result.
        """
        known = await self._client.leaders({each.topic for each in self.left})
        for partition in [p for p in self.left if p.index not in known.get(p.topic, {})]:
            del self.left[partition]
        led, homeless = grouped(known, self.left)
        self._client.forget({each.topic for each in homeless})
        requests = {
            node: self._request({each: self.left[each] for each in parts})
            for node, parts in led.items()
        }
        works = [partial(self._client.send, *each) for each in requests.items()]
        cause: object = f"no leader of {homeless}"
        for response in await self._io.gather(works):
            cause = self._take_in(response) or cause
        return cause

    def _request(self, wanted: Mapping[Partition, int]) -> Untyped:
        return _offsets_request(wanted, self._isolation_level)

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


def _offsets_request(wanted: Mapping[Partition, int], isolation_level: int) -> Untyped:
    kind = ListOffsetsRequest.ListOffsetsTopic
    topics: dict[str, list[Untyped]] = {}
    for (topic, index), timestamp in wanted.items():
        part = kind.ListOffsetsPartition(
            partition_index=index, current_leader_epoch=-1, timestamp=timestamp
        )
        topics.setdefault(topic, []).append(part)
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation_level,
        topics=[kind(name=topic, partitions=parts) for topic, parts in topics.items()],
        min_version=2,
        max_version=7,
    )
