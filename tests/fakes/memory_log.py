"""A message log in memory, for unit tests of code that needs a `MessageLog`.

It passes the contract tests of `tests/contract/test_log.py`. Tests can also read its records
(`records`), let it fail (`go_down`, `come_back`, `failing_commits`, `refusing`), remove old records
(`trim`), lose new ones (`lose`), and kill members (`kill`).
"""

import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from typing import Final
from zlib import crc32

from app.domain.catalogue.topic import Ack
from app.domain.durability import Copies
from app.domain.errors import (
    LogUnavailableError,
    MessageRefusedError,
    MessageTimeRefusedError,
    MessageTooLargeError,
    TopicNotFoundError,
)
from app.domain.message import NewRecord, Partition, Record
from app.log.interface import (
    Bounds,
    Chunk,
    Committed,
    FoundTopic,
    LogStats,
    LogTopic,
    Ownership,
    Position,
    Tail,
)
from tests.fakes.memory_ownership import MemoryGroup
from tests.fakes.memory_tail import MemoryTail
from tests.fakes.signal import Signal

METADATA_BYTES_MAX: Final = 4_096


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(slots=True)
class Stored:
    """The records of one partition, from the offset `start` on, without gaps."""

    start: int = 0
    records: list[Record] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.start + len(self.records)

    def append(self, new: NewRecord, timestamp_ms: int) -> int:
        offset = self.end
        headers = list(new.headers)
        self.records.append(Record(offset, timestamp_ms, new.key, new.value, headers))
        return offset

    def trim(self, offset: int) -> None:
        del self.records[: offset - self.start]
        self.start = offset

    def lose(self, offset: int) -> None:
        del self.records[offset - self.start :]

    def read(self, partition: Partition, offset: int, bytes_max: int) -> Chunk:
        if not self.start <= offset <= self.end:
            return Chunk(partition, offset, self.start, (), 0, gap=True, log_end=self.end)
        taken, size = [], 0
        for record in self.records[offset - self.start :]:
            if size >= bytes_max:
                break
            taken.append(record)
            size += size_of(record)
        return Chunk(partition, offset, offset + len(taken), taken, size)


def size_of(record: Record) -> int:
    return len(record.key or b"") + len(record.value or b"")


class MemoryLog:
    """The log, as all simulated processes use it together. Each may be a member, and have tails."""

    def __init__(self, now_ms: Callable[[], int] = wall_clock_ms) -> None:
        self.stats = LogStats()
        self.down = False
        self.failing_commits: dict[str, str] = {}
        """Group → why each commit of it fails."""
        self.refusing: set[str] = set()
        """Topics that take nothing."""
        self.compacted: set[str] = set()
        # Topics that refuse each message for its time.
        self.wrong_time: set[str] = set()
        """Topics that take no record without a key."""
        self.copied: dict[str, Copies] = {}
        """What it says of brokers, of which it has none."""
        self.commits: dict[str, dict[Partition, Committed]] = {}
        self.topics: dict[str, LogTopic] = {}
        self._now_ms = now_ms
        self._stored: dict[Partition, Stored] = {}
        self.changed = Signal()
        self._turns = count()
        self._group = MemoryGroup(self._partitions_of)

    def go_down(self) -> None:
        """Let all calls raise LogUnavailableError from now on. Tails get nothing."""
        self.down = True

    def come_back(self) -> None:
        """Answer calls again, with all stored records."""
        self.down = False
        self.changed.send()

    def trim(self, partition: Partition, offset: int) -> None:
        """Remove the records before `offset`, as retention does."""
        self._stored[partition].trim(offset)

    def lose(self, partition: Partition, offset: int) -> None:
        """Lose the records from `offset` on, as with an unclean leader election."""
        self._stored[partition].lose(offset)

    def kill(self, member: str) -> None:
        """Remove the member as `kill -9` does: it is not told."""
        self._group.kill(member)

    def records(self, topic: str) -> list[Record]:
        """Return all records of the topic, one partition after the other."""
        return [
            r for partition in self._partitions_of(topic) for r in self._stored[partition].records
        ]

    def of(self, partition: Partition) -> list[Record]:
        """Return the records that the partition still has."""
        return list(self._stored[partition].records)

    def owner(self, partition: Partition) -> str | None:
        """Return the member that owns the partition now."""
        return self._group.owner(partition)

    async def append(
        self, topic: str, records: Sequence[NewRecord], *, ack: Ack = Ack.ALL
    ) -> Sequence[Position]:
        del ack  # it has no effect: each record has only one copy
        self._answer()
        if topic in self.refusing:
            raise LogUnavailableError(f"{topic} takes nothing")
        partitions = await self.partitions(topic)
        if any(len(record.value) > self.topics[topic].message_size_max for record in records):
            raise MessageTooLargeError(f"a record is larger than {topic} allows")
        if topic in self.compacted and any(record.key is None for record in records):
            raise MessageRefusedError(f"{topic} takes no record without a key")
        if topic in self.wrong_time:
            raise MessageTimeRefusedError(f"{topic} takes no record with this time")
        positions = [self._append(partitions, record) for record in records]
        self.stats.appended_records += len(positions)
        self.changed.send()
        return positions

    async def fetch(
        self, partition: Partition, offset: int, *, bytes_max: int, wait: timedelta = timedelta()
    ) -> Chunk:
        self._answer()
        deadline = time.monotonic() + wait.total_seconds()
        while True:
            chunk = self._existing(partition).read(partition, offset, bytes_max)
            remaining = deadline - time.monotonic()
            if chunk.records or chunk.gap or remaining <= 0:
                break
            await self.changed.wait(remaining)
            self._answer()
        self._count(chunk)
        return chunk

    def tail(self) -> AbstractAsyncContextManager[Tail]:
        return self._tail()

    def ownership(
        self,
        *,
        member: str,
        capacity: float = 1.0,
        revoke_timeout: timedelta = timedelta(seconds=5),
    ) -> AbstractAsyncContextManager[Ownership]:
        return self._group.joined(member, capacity, revoke_timeout)

    async def commit(
        self, offsets: Mapping[str, Mapping[Partition, Committed]]
    ) -> Mapping[tuple[str, Partition], str]:
        self._answer()
        failed: dict[tuple[str, Partition], str] = {}
        for group, partition, committed in flattened(offsets):
            if reason := self._refusal(group, partition, committed):
                failed[group, partition] = reason
            else:
                self.commits.setdefault(group, {})[partition] = committed
                self.stats.commits += 1
        return failed

    async def committed(
        self, groups: Mapping[str, Collection[Partition]]
    ) -> Mapping[str, Mapping[Partition, Committed]]:
        self._answer()
        return {
            group: {p: mine[p] for p in partitions if p in mine}
            for group, partitions in groups.items()
            for mine in [self.commits.get(group, {})]
        }

    async def forget(self, group: str, partitions: Collection[Partition]) -> None:
        self._answer()
        for partition in partitions:
            self.commits.get(group, {}).pop(partition, None)

    async def bounds(self, partitions: Collection[Partition]) -> Mapping[Partition, Bounds]:
        self._answer()
        found = {p: self._stored[p] for p in partitions if p in self._stored}
        return {p: Bounds(stored.start, stored.end) for p, stored in found.items()}

    async def published(self, topics: Mapping[str, int]) -> Mapping[str, int]:
        self._answer()
        found: dict[str, int] = {}
        for partition, stored in self._stored.items():
            if partition.topic in topics:
                found[partition.topic] = found.get(partition.topic, 0) + stored.end
        return found

    async def offsets_at(
        self, partitions: Collection[Partition], timestamp_ms: int
    ) -> Mapping[Partition, int]:
        self._answer()
        found = {p: self._stored[p] for p in partitions if p in self._stored}
        return {
            p: next((r.offset for r in s.records if r.timestamp_ms >= timestamp_ms), s.end)
            for p, s in found.items()
        }

    async def copies(self) -> Mapping[str, Copies]:
        self._answer()
        return self.copied

    async def topic_names(self) -> Collection[str]:
        self._answer()
        return set(self.topics)

    async def partition_counts(self, topics: Collection[str]) -> Mapping[str, int]:
        self._answer()
        return {name: len(self._partitions_of(name)) for name in topics if name in self.topics}

    async def partitions(self, topic: str) -> Sequence[Partition]:
        self._answer()
        if topic not in self.topics:
            raise TopicNotFoundError(f"the log has no topic {topic}")
        return self._partitions_of(topic)

    async def topic(self, name: str) -> FoundTopic:
        partitions = await self.partitions(name)
        return FoundTopic(len(partitions), self.topics[name].retention)

    async def create_topic(self, topic: LogTopic) -> None:
        self._answer()
        self.topics.setdefault(topic.name, topic)
        await self.alter_topic(topic)

    async def alter_topic(self, topic: LogTopic) -> None:
        self._answer()
        if topic.name not in self.topics:
            raise TopicNotFoundError(f"the log has no topic {topic.name}")
        self.topics[topic.name] = topic
        for index in range(topic.partitions):
            self._stored.setdefault(Partition(topic.name, index), Stored())
        self.changed.send()
        self._group.rebalance()

    async def delete_topic(self, name: str) -> None:
        self._answer()
        self.topics.pop(name, None)
        gone = self._partitions_of(name)
        for partition in gone:
            del self._stored[partition]
        for offsets in self.commits.values():
            for partition in gone:
                offsets.pop(partition, None)
        self._group.vanished(gone)

    async def numbering_problem(self) -> str:
        """Return an empty text: there is no problem. See `MessageLog.numbering_problem`."""
        return ""

    async def ping(self) -> None:
        self._answer()

    def _answer(self) -> None:
        if self.down:
            raise LogUnavailableError("the log in memory is down")

    def _existing(self, partition: Partition) -> Stored:
        if partition not in self._stored:
            raise TopicNotFoundError(f"the log has no partition {partition}")
        return self._stored[partition]

    def _partitions_of(self, topic: str) -> list[Partition]:
        """Return the topic's partitions by index. They are stored in this order."""
        return [partition for partition in self._stored if partition.topic == topic]

    def _append(self, partitions: Sequence[Partition], record: NewRecord) -> Position:
        turn = next(self._turns) if record.key is None else crc32(record.key)
        partition = partitions[turn % len(partitions)]
        timestamp_ms = self._now_ms() if record.timestamp_ms is None else record.timestamp_ms
        return Position(partition, self._stored[partition].append(record, timestamp_ms))

    def _count(self, chunk: Chunk) -> None:
        self.stats.fetches += 1
        self.stats.fetched_records += len(chunk.records)
        self.stats.fetched_bytes += chunk.size

    def _refusal(self, group: str, partition: Partition, committed: Committed) -> str | None:
        if partition not in self._stored:
            return "no such partition"
        if len(committed.metadata.encode()) > METADATA_BYTES_MAX:
            return "metadata too large"
        return self.failing_commits.get(group)

    @asynccontextmanager
    async def _tail(self) -> AsyncIterator[MemoryTail]:
        yield MemoryTail(self._read, self.changed)

    def _read(self, partition: Partition, offset: int) -> Chunk | None:
        """Return the next chunk for a tail; None if there is no new record."""
        if self.down or partition not in self._stored:
            return None
        chunk = self._stored[partition].read(partition, offset, TAIL_BYTES_MAX)
        if not (chunk.records or chunk.gap):
            return None
        self._count(chunk)
        return chunk


TAIL_BYTES_MAX: Final = 1 << 20


def flattened(
    offsets: Mapping[str, Mapping[Partition, Committed]],
) -> Iterator[tuple[str, Partition, Committed]]:
    for group, partitions in offsets.items():
        for partition, committed in partitions.items():
            yield group, partition, committed
