"""The simulated log: a cluster that behaves like Kafka, and the clients of each process.

It behaves like Kafka in these ways. A record is first only at the leader of its partition; readers
see it when all replicas have it (the high watermark). If the leader dies, records that only the
leader had are lost. An answer may be lost after the log did what was requested. A producer that
numbers its records can send them again, and they are stored once. A commit may be applied after its
sender gave up. Members of the group have sessions and generations (see
`tests.simulation.log_group`).

The simulated log passes the contract tests in `tests/contract`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from random import Random
from typing import Final

from app.domain.catalogue.topic import Ack
from app.domain.durability import Copies
from app.domain.errors import LogUnavailableError, MessageTooLargeError, TopicNotFoundError
from app.domain.message import NewRecord, Partition
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
from tests.fakes.signal import Signal
from tests.simulation.conditions import Service
from tests.simulation.log_group import SESSION_S, Group, Membership
from tests.simulation.log_observer import LogObserver, Unobserved
from tests.simulation.log_partition import SimulatedPartition
from tests.simulation.log_producer import Producer
from tests.simulation.remote import Remote, Reply, later

METADATA_BYTES_MAX: Final = 4_096
TAIL_BYTES_MAX: Final = 1 << 20


class SimulatedLog:
    """The cluster. Replicas copy a record within at most `replication_s` seconds."""

    def __init__(
        self,
        now_ms: Callable[[], int],
        service: Service,
        *,
        observer: LogObserver | None = None,
        replication_s: float = 0.0,
        session_s: float = SESSION_S,
    ) -> None:
        self.observer: LogObserver = observer or Unobserved()
        self.service = service
        self.now_ms = now_ms
        self.topics: dict[str, LogTopic] = {}
        self.stored: dict[Partition, SimulatedPartition] = {}
        self.commits: dict[str, dict[Partition, Committed]] = {}
        self.group = Group(self.partitions_of, self.observer, session_s=session_s)
        self.changed = Signal()
        # The reason why commits are refused, for each group; `*` stands for all groups.
        self.refusing: dict[str, str] = {}
        # The maximum delay of commits in seconds.
        self.commits_late_s = 0.0
        # Whether producers number their records, so that repeated records are stored once.
        self.numbered = True
        self._replication_s = replication_s

    @property
    def random(self) -> Random:
        """The source of random numbers of this run."""
        return self.service.random

    def client(self, process: str) -> "LogClient":
        """Return the log as one process uses it."""
        return LogClient(self, process)

    def partitions_of(self, topic: str) -> list[Partition]:
        """Return the partitions of a topic, in order."""
        return [partition for partition in self.stored if partition.topic == topic]

    def existing(self, topic: str) -> list[Partition]:
        """Return the partitions of a topic.

        Raises:
            TopicNotFoundError: The topic does not exist.
        """
        if topic not in self.topics:
            raise TopicNotFoundError(f"the log has no topic {topic}")
        return self.partitions_of(topic)

    def at(self, partition: Partition) -> SimulatedPartition:
        """Return the stored records of a partition.

        Raises:
            TopicNotFoundError: The partition does not exist.
        """
        if partition not in self.stored:
            raise TopicNotFoundError(f"the log has no partition {partition}")
        return self.stored[partition]

    # ---- what clients ask -----------------------------------------------------------------------

    def append(
        self,
        partition: Partition,
        records: Sequence[NewRecord],
        *,
        ack: Ack,
        number: tuple[str, int] | None,
        reply: Reply[int],
    ) -> None:
        """Store records. Reply with the offset of the first one when the `ack` allows it."""
        stored = self.stored.get(partition)
        if stored is None:
            reply.fail(TopicNotFoundError(f"the log has no partition {partition}"))
            return
        if not stored.has_leader:
            return
        size_max = self.topics[partition.topic].message_size_max
        if any(len(each.value) > size_max for each in records):
            reply.fail(MessageTooLargeError(f"a record is larger than {partition.topic} allows"))
            return
        first = None if number is None else stored.numbers.get(number)
        if first is None:
            first = stored.append(records, self.now_ms())
            self.observer.stored(partition, first, records)
            if number is not None:
                stored.numbers[number] = first
            self._replicate_soon(stored)
        if ack is Ack.LEADER:
            reply.give(first)
        else:
            known = first
            stored.when_replicated(first + len(records), lambda: reply.give(known))

    def _replicate_soon(self, stored: SimulatedPartition) -> None:
        end, term = stored.end, stored.term
        if self._replication_s:
            delay_s = self.random.uniform(0, self._replication_s)
            later(delay_s, self._replicate, stored, end, term)
        else:
            self._replicate(stored, end, term)

    def _replicate(self, stored: SimulatedPartition, end: int, term: int) -> None:
        if stored.replicate(end, term):
            self.changed.send()

    def commit(
        self, process: str, offsets: Mapping[str, Mapping[Partition, Committed]]
    ) -> Mapping[tuple[str, Partition], str]:
        """Store commits; return the reason of each commit that failed."""
        failed: dict[tuple[str, Partition], str] = {}
        for group, partition, committed in flattened(offsets):
            if reason := self._refusal(group, partition, committed):
                failed[group, partition] = reason
            else:
                self.commits.setdefault(group, {})[partition] = committed
                self.observer.committed(process, group, partition=partition, what=committed)
        return failed

    def _refusal(self, group: str, partition: Partition, committed: Committed) -> str | None:
        if partition not in self.stored:
            return "no such partition"
        if len(committed.metadata.encode()) > METADATA_BYTES_MAX:
            return "metadata too large"
        return self.refusing.get(group) or self.refusing.get("*")

    def create(self, topic: LogTopic) -> None:
        """Create the topic. If it exists, change it."""
        self.topics.setdefault(topic.name, topic)
        self.alter(topic)

    def alter(self, topic: LogTopic) -> None:
        """Change the topic, and add missing partitions."""
        if topic.name not in self.topics:
            raise TopicNotFoundError(f"the log has no topic {topic.name}")
        self.topics[topic.name] = topic
        for index in range(topic.partitions):
            partition = Partition(topic.name, index)
            self.stored.setdefault(partition, SimulatedPartition(partition))
        self.changed.send()
        self.group.rebalance()

    def delete(self, name: str) -> None:
        """Delete the topic, if it exists."""
        self.topics.pop(name, None)
        gone = self.partitions_of(name)
        for partition in gone:
            del self.stored[partition]
        for offsets in self.commits.values():
            for partition in gone:
                offsets.pop(partition, None)
        self.group.vanished(gone)

    # ---- faults ---------------------------------------------------------------------------------

    def kill_leader(self, partition: Partition) -> None:
        """Leave the partition without a leader, so that nothing can be stored or read."""
        if stored := self.stored.get(partition):
            stored.has_leader = False

    def elect(self, partition: Partition, *, back: int = 0) -> None:
        """Give the partition a new leader.

        With `back`, it lacks that many records that readers have seen.
        """
        if stored := self.stored.get(partition):
            start, end = stored.elect(stored.high - back if back else None)
            if end > start:
                why = "unclean leader" if back else "only the leader had it"
                self.observer.lost(partition, start, end, why=why)
            self.changed.send()

    def trim(self, partition: Partition, offset: int) -> None:
        """Remove the records before `offset`, as retention does."""
        stored = self.stored[partition]
        if offset > stored.start:
            self.observer.lost(partition, stored.start, offset, why="retention")
            stored.trim(offset)


class LogClient:
    """The log as one process uses it. Every answer takes time, and may be lost."""

    def __init__(self, log: SimulatedLog, process: str) -> None:
        self.stats = LogStats()
        self._log = log
        self._process = process
        self._remote = Remote(process, log.service, LogUnavailableError)
        self._producer = Producer(log, self._remote, self.stats)
        self._members: list[Membership] = []

    async def append(
        self, topic: str, records: Sequence[NewRecord], *, ack: Ack = Ack.ALL
    ) -> Sequence[Position]:
        return await self._producer.append(topic, records, ack=ack)

    async def fetch(
        self, partition: Partition, offset: int, *, bytes_max: int, wait: timedelta = timedelta()
    ) -> Chunk:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait.total_seconds()

        def read(reply: Reply[Chunk]) -> None:
            self._read(partition, offset, bytes_max=bytes_max, reply=reply)

        while True:
            changed = self._log.changed
            chunk = await self._remote.ask(read)
            left_s = deadline - loop.time()
            if chunk.records or chunk.gap or left_s <= 0:
                break
            await changed.wait(left_s)
        self._count(chunk)
        return chunk

    def _read(
        self, partition: Partition, offset: int, *, bytes_max: int, reply: Reply[Chunk]
    ) -> None:
        try:
            stored = self._log.at(partition)
        except TopicNotFoundError as error:
            reply.fail(error)
            return
        if stored.has_leader:
            reply.give(stored.read(offset, bytes_max))

    def tail(self) -> AbstractAsyncContextManager[Tail]:
        return self._tail()

    @asynccontextmanager
    async def _tail(self) -> AsyncIterator[Tail]:
        yield _Tail(self)

    def ownership(
        self,
        *,
        member: str,
        capacity: float = 1.0,
        revoke_timeout: timedelta = timedelta(seconds=5),
    ) -> AbstractAsyncContextManager[Ownership]:
        membership = Membership(
            member,
            self._log.group,
            self._log.service,
            capacity=capacity,
            revoke_s=revoke_timeout.total_seconds(),
        )
        self._members.append(membership)
        return membership.joined()

    async def commit(
        self, offsets: Mapping[str, Mapping[Partition, Committed]]
    ) -> Mapping[tuple[str, Partition], str]:
        wanted = [(group, partition) for group, partition, _ in flattened(offsets)]
        if not all(each.is_sure for each in self._members):
            return dict.fromkeys(wanted, "this process may not own its partitions any more")

        def commit(reply: Reply[Mapping[tuple[str, Partition], str]]) -> None:
            self._commit_late(offsets, reply)

        try:
            failed = await self._remote.ask(commit)
        except LogUnavailableError as error:
            return dict.fromkeys(wanted, error.message)
        self.stats.commits += len(wanted) - len(failed)
        return failed

    def _commit_late(
        self,
        offsets: Mapping[str, Mapping[Partition, Committed]],
        reply: Reply[Mapping[tuple[str, Partition], str]],
    ) -> None:
        log = self._log
        if not log.commits_late_s:
            reply.give(log.commit(self._process, offsets))
            return
        later(
            log.random.uniform(0, log.commits_late_s),
            lambda: reply.give(log.commit(self._process, offsets)),
        )

    async def committed(
        self, groups: Mapping[str, Collection[Partition]]
    ) -> Mapping[str, Mapping[Partition, Committed]]:
        found = await self._remote.call(
            lambda: {
                group: {p: mine[p] for p in partitions if p in mine}
                for group, partitions in groups.items()
                for mine in [self._log.commits.get(group, {})]
            }
        )
        for group, partition, committed in flattened(found):
            self._log.observer.commit_read(
                self._process, group, partition=partition, what=committed
            )
        return found

    async def forget(self, group: str, partitions: Collection[Partition]) -> None:
        def forget() -> None:
            for partition in partitions:
                self._log.commits.get(group, {}).pop(partition, None)

        await self._remote.call(forget)

    async def bounds(self, partitions: Collection[Partition]) -> Mapping[Partition, Bounds]:
        return await self._remote.call(
            lambda: {p: Bounds(stored.start, stored.high) for p, stored in self._found(partitions)}
        )

    async def published(self, topics: Mapping[str, int]) -> Mapping[str, int]:
        def published() -> Mapping[str, int]:
            found: dict[str, int] = {}
            for partition, stored in self._log.stored.items():
                if partition.topic in topics:
                    found[partition.topic] = found.get(partition.topic, 0) + stored.high
            return found

        return await self._remote.call(published)

    async def offsets_at(
        self, partitions: Collection[Partition], timestamp_ms: int
    ) -> Mapping[Partition, int]:
        def first_at(stored: SimulatedPartition) -> int:
            seen = stored.records[: stored.high - stored.start]
            found = (each.offset for each in seen if each.timestamp_ms >= timestamp_ms)
            return next(found, stored.high)

        return await self._remote.call(
            lambda: {p: first_at(stored) for p, stored in self._found(partitions)}
        )

    async def topic_names(self) -> Collection[str]:
        return await self._remote.call(lambda: set(self._log.topics))

    async def partition_counts(self, topics: Collection[str]) -> Mapping[str, int]:
        return await self._remote.call(
            lambda: {
                name: len(self._log.partitions_of(name))
                for name in topics
                if name in self._log.topics
            }
        )

    async def copies(self) -> Mapping[str, Copies]:
        return {}

    async def partitions(self, topic: str) -> Sequence[Partition]:
        return await self._remote.call(lambda: self._log.existing(topic))

    async def topic(self, name: str) -> FoundTopic:
        return await self._remote.call(
            lambda: FoundTopic(len(self._log.existing(name)), self._log.topics[name].retention)
        )

    async def create_topic(self, topic: LogTopic) -> None:
        await self._remote.call(lambda: self._log.create(topic))

    async def alter_topic(self, topic: LogTopic) -> None:
        await self._remote.call(lambda: self._log.alter(topic))

    async def delete_topic(self, name: str) -> None:
        await self._remote.call(lambda: self._log.delete(name))

    async def numbering_problem(self) -> str:
        return ""

    async def ping(self) -> None:
        await self._remote.call(lambda: None)

    def _found(
        self, partitions: Collection[Partition]
    ) -> Iterator[tuple[Partition, SimulatedPartition]]:
        return ((p, self._log.stored[p]) for p in partitions if p in self._log.stored)

    def _count(self, chunk: Chunk) -> None:
        self.stats.fetches += 1
        self.stats.fetched_records += len(chunk.records)
        self.stats.fetched_bytes += chunk.size

    # ---- for tails ------------------------------------------------------------------------------

    async def read_all(self, positions: Mapping[Partition, int]) -> list[Chunk]:
        """Wait until there are records at any of these positions, however long the log is down."""
        while True:
            changed = self._log.changed
            if self._ready(positions):
                try:
                    await self._remote.call(lambda: None)
                except LogUnavailableError:
                    continue
                # Read again after the answer: the tail may have other positions by now.
                if chunks := self._ready(positions):
                    for chunk in chunks:
                        self._count(chunk)
                    return chunks
            await changed.wait()

    def _ready(self, positions: Mapping[Partition, int]) -> list[Chunk]:
        found = [
            self._log.stored[partition].read(offset, TAIL_BYTES_MAX)
            for partition, offset in positions.items()
            if partition in self._log.stored and self._log.stored[partition].has_leader
        ]
        return [chunk for chunk in found if chunk.records or chunk.gap]

    def followed(self) -> None:
        """Called when a tail begins to read from another position."""
        self._log.changed.send()


class _Tail:
    def __init__(self, client: LogClient) -> None:
        self._client = client
        self._positions: dict[Partition, int] = {}

    def follow(self, partition: Partition, offset: int) -> None:
        self._positions[partition] = offset
        self._client.followed()

    def unfollow(self, partition: Partition) -> None:
        self._positions.pop(partition, None)

    async def chunks(self) -> Sequence[Chunk]:
        chunks = await self._client.read_all(self._positions)
        for chunk in chunks:
            self._positions[chunk.partition] = chunk.next_offset
        return chunks


def flattened(
    offsets: Mapping[str, Mapping[Partition, Committed]],
) -> Iterator[tuple[str, Partition, Committed]]:
    """Yield each group, partition and commit of a nested mapping."""
    for group, partitions in offsets.items():
        for partition, committed in partitions.items():
            yield group, partition, committed
