"""Reads and deletes the committed offsets of many Kafka groups that have no members."""

from collections.abc import Collection, Mapping
from functools import partial
from typing import Final

from kafka.protocol.consumer import OffsetDeleteRequest, OffsetFetchRequest

from app.domain.message import Partition
from app.log.interface import Committed
from app.log.kafka.bridge import IoThread, Untyped
from app.log.kafka.client import FAILED_TRY, Client, Deadline, reason
from app.log.kafka.protocol.wire import by_topic

LOOK_TIMEOUT_S: Final = 3.0
# The time limit of a call, in seconds. An attempt that began before the limit may end a little
# later.
CALL_TIMEOUT_S: Final = 4.0

_GROUPS_PER_REQUEST: Final = 100
_NOTHING_THERE_CODES: Final = frozenset({3, 69})


class Commits:
    """The committed offsets of Kafka groups. Group names include the namespace."""

    def __init__(self, io: IoThread, client: Client) -> None:
        self._io = io
        self._client = client

    async def committed(
        self, groups: Mapping[str, Collection[Partition]]
    ) -> Mapping[str, Mapping[Partition, Committed]]:
        """Return the committed positions of groups.

        The result leaves out partitions without a committed position.
        """
        return await self._io.run(lambda: self._committed(groups), seconds=CALL_TIMEOUT_S)

    async def forget(self, group: str, partitions: Collection[Partition]) -> None:
        """Delete the group's commits of these partitions, if there are any."""
        if partitions:
            work = partial(self._forget, group, partitions)
            await self._io.run(work, seconds=CALL_TIMEOUT_S)

    async def _committed(
        self, groups: Mapping[str, Collection[Partition]]
    ) -> Mapping[str, Mapping[Partition, Committed]]:
        deadline = Deadline(self._io, LOOK_TIMEOUT_S)
        found: dict[str, Mapping[Partition, Committed]] = {}
        left = {group: partitions for group, partitions in groups.items() if partitions}
        while left:
            try:
                cause = await self._ask_committed(left, found)
            except FAILED_TRY as error:
                cause = error
            if left:
                self._client.forget_coordinators(left)
                await deadline.pause(cause)
        return {group: found.get(group, {}) for group in groups}

    async def _ask_committed(
        self,
        left: dict[str, Collection[Partition]],
        found: dict[str, Mapping[Partition, Committed]],
    ) -> object:
        """Query all coordinators once. Move each group with a result from `left` to `found`."""
        cause: object = "a coordinator is not available"
        by_node: dict[int, list[str]] = {}
        for group, node in (await self._client.coordinators(left)).items():
            by_node.setdefault(node, []).append(group)
        for node, names in by_node.items():
            for start in range(0, len(names), _GROUPS_PER_REQUEST):
                some = {each: left[each] for each in names[start : start + _GROUPS_PER_REQUEST]}
                response = await self._client.send(node, _offsets_request(some))
                for answer in response.groups:
                    code = _first_error(answer)
                    if code:
                        cause = reason(code)
                    else:
                        found[answer.group_id] = _offsets(answer)
                        del left[answer.group_id]
        return cause

    async def _forget(self, group: str, partitions: Collection[Partition]) -> None:
        deadline = Deadline(self._io, LOOK_TIMEOUT_S)
        while True:
            cause: object = "its coordinator is not available"
            try:
                node = (await self._client.coordinators([group])).get(group)
                if node is not None:
                    response = await self._client.send(node, _delete_request(group, partitions))
                    code = _delete_error(response)
                    if not code:
                        return
                    cause = reason(code)
            except FAILED_TRY as error:
                cause = error
            self._client.forget_coordinators([group])
            await deadline.pause(cause)


def _offsets_request(groups: Mapping[str, Collection[Partition]]) -> Untyped:
    kind = OffsetFetchRequest.OffsetFetchRequestGroup
    return OffsetFetchRequest(
        groups=[
            kind(
                group_id=group,
                topics=[
                    kind.OffsetFetchRequestTopics(name=topic, partition_indexes=indexes)
                    for topic, indexes in by_topic(partitions).items()
                ],
            )
            for group, partitions in groups.items()
        ],
        require_stable=False,
        min_version=8,
        max_version=8,
    )


def _first_error(answer: Untyped) -> int:
    """Return the error code of a group's response, or of one of its partitions that exist.

    The result is 0 if there is no error.
    """
    codes = [part.error_code for topic in answer.topics for part in topic.partitions]
    return next((c for c in (answer.error_code, *codes) if c not in {0, 3}), 0)


def _offsets(answer: Untyped) -> Mapping[Partition, Committed]:
    return {
        Partition(topic.name, part.partition_index): Committed(
            part.committed_offset, part.metadata or ""
        )
        for topic in answer.topics
        for part in topic.partitions
        if part.error_code == 0 and part.committed_offset >= 0
    }


def _delete_request(group: str, partitions: Collection[Partition]) -> Untyped:
    kind = OffsetDeleteRequest.OffsetDeleteRequestTopic
    return OffsetDeleteRequest(
        group_id=group,
        topics=[
            kind(
                name=topic,
                partitions=[
                    kind.OffsetDeleteRequestPartition(partition_index=index) for index in indexes
                ],
            )
            for topic, indexes in by_topic(partitions).items()
        ],
    )


def _delete_error(response: Untyped) -> int:
    """Return the error code of a deletion.

    The result is 0 also if there was nothing to delete.
    """
    parts = [part.error_code for topic in response.topics for part in topic.partitions]
    for code in (response.error_code, *parts):
        if code and code not in _NOTHING_THERE_CODES:
            return int(code)
    return 0
