"""Committed offsets of groups that have no members: pipelined commits, reads in bulk."""

import contextlib
from collections import deque
from collections.abc import Collection, Mapping
from functools import partial
from typing import Final

from kafka.protocol.consumer import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest

from app.domain.errors import LogUnavailableError
from app.domain.message import Partition
from app.log.interface import Committed, LogStats
from app.log.kafka.bridge import IoThread, Untyped
from app.log.kafka.client import (
    FAILED_TRY,
    STALE_COORDINATOR_CODES,
    Client,
    Deadline,
    reason,
)
from app.log.kafka.wire import by_topic

COMMIT_TIMEOUT_S: Final = 3.0
# A try that began in time may take a little longer.
CALL_TIMEOUT_S: Final = 4.0
# Written together and answered together, a request costs half of one by itself.
IN_FLIGHT_MAX: Final = 64

_GROUPS_PER_REQUEST: Final = 100
_UNKNOWN_MEMBER: Final = 25
_NOTHING_THERE_CODES: Final = frozenset({3, 69})

Offsets = Mapping[Partition, Committed]
Failures = dict[tuple[str, Partition], str]


class Commits:
    """Commits by group. Takes and gives names with the prefix."""

    def __init__(self, io: IoThread, client: Client, stats: LogStats) -> None:
        self._io = io
        self._client = client
        self._stats = stats

    async def commit(self, offsets: Mapping[str, Offsets]) -> Failures:
        """As `MessageLog.commit`; a Kafka that does not answer is a failure of each partition."""
        groups = {group: each for group, each in offsets.items() if each}
        failures = await self._io.run(lambda: self._commit_all(groups))
        self._stats.commits += sum(len(each) for each in groups.values()) - len(failures)
        return failures

    async def committed(
        self, groups: Mapping[str, Collection[Partition]]
    ) -> Mapping[str, Mapping[Partition, Committed]]:
        """As `MessageLog.committed`."""
        return await self._io.run(lambda: self._committed(groups), seconds=CALL_TIMEOUT_S)

    async def forget(self, group: str, partitions: Collection[Partition]) -> None:
        """As `MessageLog.forget`."""
        if partitions:
            work = partial(self._forget, group, partitions)
            await self._io.run(work, seconds=CALL_TIMEOUT_S)

    async def _commit_all(self, groups: Mapping[str, Offsets]) -> Failures:
        commit = _Round(self._io, self._client, groups)
        await commit.run()
        return commit.failures

    async def _committed(
        self, groups: Mapping[str, Collection[Partition]]
    ) -> Mapping[str, Mapping[Partition, Committed]]:
        deadline = Deadline(self._io, COMMIT_TIMEOUT_S)
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
        """One round over all coordinators: move what is answered from `left` to `found`."""
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
        deadline = Deadline(self._io, COMMIT_TIMEOUT_S)
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


class _Round:
    """One call of `commit`: its groups a few at a time, and what failed of them.

    When the coordinators have been silent for COMMIT_TIMEOUT_S, the rest is not even tried.
    """

    def __init__(self, io: IoThread, client: Client, groups: Mapping[str, Offsets]) -> None:
        self._io = io
        self._client = client
        self._groups = groups
        self._waiting = deque(groups.items())
        self._deadline = Deadline(io, COMMIT_TIMEOUT_S)
        self._silent: LogUnavailableError | None = None
        self.failures: Failures = {}

    async def run(self) -> None:
        """Commit all of them; a broker has at most IN_FLIGHT_MAX requests of ours to answer."""
        # All coordinators in one request; a group it does not find looks for itself.
        with contextlib.suppress(*FAILED_TRY):
            await self._client.coordinators(self._groups)
        await self._io.gather([self._line] * min(IN_FLIGHT_MAX, len(self._groups)))

    async def _line(self) -> None:
        """One group after another, as long as there are any."""
        while self._waiting:
            group, offsets = self._waiting.popleft()
            left = dict(offsets)
            try:
                await self._commit(group, left)
            except LogUnavailableError as error:
                self._silent = error
            if self._silent is not None:
                self._fail_all(group, left, self._silent.message)

    async def _commit(self, group: str, left: dict[Partition, Committed]) -> None:
        """One group; again, what the coordinator could not take in right now."""
        while left and self._silent is None:
            try:
                cause = await self._try(group, left)
            except FAILED_TRY as error:
                cause = error
            if left:
                self._client.forget_coordinators([group])
                await self._deadline.pause(cause)

    async def _try(self, group: str, left: dict[Partition, Committed]) -> object:
        """Take out of `left` what is decided. Returns why the rest is not."""
        node = (await self._client.coordinators([group])).get(group)
        if node is None:
            return "its coordinator is not available"
        response = await self._client.send(node, _commit_request(group, left))
        cause: object = "a partition was left unanswered"
        for topic in response.topics:
            for part in topic.partitions:
                partition = Partition(topic.name, part.partition_index)
                if part.error_code in STALE_COORDINATOR_CODES:
                    cause = reason(part.error_code)
                    continue
                left.pop(partition, None)
                if part.error_code:
                    self.failures[group, partition] = _commit_failure(part.error_code)
        return cause

    def _fail_all(self, group: str, left: Collection[Partition], why: str) -> None:
        self.failures.update({(group, each): why for each in left})


def _commit_request(group: str, offsets: Offsets) -> Untyped:
    kind = OffsetCommitRequest.OffsetCommitRequestTopic
    topics: dict[str, list[Untyped]] = {}
    for (topic, index), committed in offsets.items():
        part = kind.OffsetCommitRequestPartition(
            partition_index=index,
            committed_offset=committed.offset,
            committed_leader_epoch=-1,
            committed_metadata=committed.metadata,
        )
        topics.setdefault(topic, []).append(part)
    return OffsetCommitRequest(
        group_id=group,
        # No member and no generation: allowed for as long as the group has no members.
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        retention_time_ms=-1,
        topics=[kind(name=topic, partitions=parts) for topic, parts in topics.items()],
        max_version=8,
    )


def _commit_failure(code: int) -> str:
    if code == _UNKNOWN_MEMBER:
        return "the group has members of its own, which alone may commit"
    return reason(code)


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
    """The error of a group's answer, of itself or of a partition that does exist; 0 for none."""
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
    """What went wrong, if it was more than that there is nothing to delete."""
    parts = [part.error_code for topic in response.topics for part in topic.partitions]
    for code in (response.error_code, *parts):
        if code and code not in _NOTHING_THERE_CODES:
            return int(code)
    return 0
