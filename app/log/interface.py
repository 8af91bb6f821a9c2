"""The message-log seam: what Angelia asks of a log, whichever log it is.

Two adapters (Kafka, PostgreSQL) and the tests' in-memory fake are held to one contract suite
(`tests/contract/test_log.py`). Nothing outside `app/log` knows which one runs.

Names here are without the namespace; an adapter adds it. All calls come from one event loop; an
adapter's own threads hand over to it. Every call that waits is bounded: it raises
`LogUnavailableError` within the adapter's timeouts, except where its docstring says that it waits.
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from app.domain.catalogue.topic import Ack
from app.domain.durability import Copies
from app.domain.message import NewRecord, Partition, Record


@dataclass(frozen=True, slots=True)
class Chunk:
    """Records of one partition in offset order, covering every offset of [offset, next_offset).

    `next_offset` may lie beyond the last record (control records, compaction). `gap`: the log no
    longer has `offset` (retention, a recreated topic); there are no records and reading goes on at
    `next_offset`, which is then the log's start. `size` counts the bytes that were fetched for it.
    """

    partition: Partition
    offset: int
    next_offset: int
    records: Sequence[Record]
    size: int
    gap: bool = False


@dataclass(frozen=True, slots=True)
class Position:
    """Where an appended record went."""

    partition: Partition
    offset: int


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed position: the next offset to deliver.

    `metadata` is at most 4,000 bytes of ASCII about it.
    """

    offset: int
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The offsets a partition has: `start` is the first, `end` the next to be written."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTopic:
    """What a log topic is to be."""

    name: str
    partitions: int
    retention: timedelta
    message_size_max: int


@dataclass(slots=True)
class LogStats:
    """Totals since the start of this process, for metrics and tests."""

    appended_records: int = 0
    fetched_records: int = 0
    fetched_bytes: int = 0
    fetches: int = 0
    commits: int = 0


@dataclass(frozen=True, slots=True)
class Assigned:
    """These partitions are ours from now on."""

    partitions: frozenset[Partition]


@dataclass(frozen=True, slots=True)
class Revoked:
    """These partitions shall go to another member: finish, commit, then call `release`.

    The adapter waits for `release` at most `revoke_timeout`, without stopping its heartbeats;
    then they are gone anyway.
    """

    partitions: frozenset[Partition]
    release: "Release"


@dataclass(frozen=True, slots=True)
class Lost:
    """These partitions are not ours any more and may be another's already.

    Stop, and commit nothing for them.
    """

    partitions: frozenset[Partition]


OwnershipEvent = Assigned | Revoked | Lost


class Release(Protocol):
    """Says that revoked partitions may be handed over; calls after the first do nothing."""

    def __call__(self) -> None:
        """Hand them over."""


class Ownership(Protocol):
    """This process as a member of the ownership group (`angelia.workers`)."""

    def subscribe(self, topics: Collection[str]) -> None:
        """Take part in sharing out these topics, and no others.

        A topic that does not exist yet is taken up when it does.
        """

    def events(self) -> AsyncIterator[OwnershipEvent]:
        """What is assigned and taken away, in order.

        Waits; survives a log that is down (then: nothing, or Lost).
        """


class Tail(Protocol):
    """A long poll over any number of partitions, each read once from where it is followed."""

    def follow(self, partition: Partition, offset: int) -> None:
        """Read `partition` from `offset` on. Following again moves it."""

    def unfollow(self, partition: Partition) -> None:
        """Stop reading it. A chunk that was under way may still come."""

    async def chunks(self) -> Sequence[Chunk]:
        """Wait for something to arrive and return it: at least one chunk.

        Waits as long as the log is down.
        """


class MessageLog(Protocol):
    """The log: append, read, own, commit, look, administer."""

    @property
    def stats(self) -> LogStats:
        """Totals of this process."""

    async def append(
        self, topic: str, records: Sequence[NewRecord], *, ack: Ack = Ack.ALL
    ) -> Sequence[Position]:
        """Store `records` and return their positions, in their order, once they are acknowledged.

        Records with one key keep their order. Concurrent calls are grouped.

        Raises:
            LogUnavailableError: each record may or may not be stored.
            TopicNotFoundError: the log has no such topic.
        """

    async def fetch(
        self, partition: Partition, offset: int, *, bytes_max: int, wait: timedelta = timedelta()
    ) -> Chunk:
        """The records from `offset` on: about `bytes_max` bytes, at least one if there is one.

        At the end of the partition waits up to `wait` for the first new record, then returns an
        empty chunk. TopicNotFoundError: there is no such partition.
        """

    def tail(self) -> AbstractAsyncContextManager[Tail]:
        """A tail reader of its own."""

    def ownership(
        self,
        *,
        member: str,
        capacity: float = 1.0,
        revoke_timeout: timedelta = timedelta(seconds=5),
    ) -> AbstractAsyncContextManager[Ownership]:
        """Join the group as `member`, a name for people.

        The share of the partitions that it takes is in proportion to `capacity`.
        Leaving the block gives everything back at once; nothing more is asked of us then.
        """

    async def commit(
        self, offsets: Mapping[str, Mapping[Partition, Committed]]
    ) -> Mapping[tuple[str, Partition], str]:
        """Commit per group and partition.

        Returns those that failed, with the reason; the rest is durable.
        """

    async def committed(
        self, groups: Mapping[str, Collection[Partition]]
    ) -> Mapping[str, Mapping[Partition, Committed]]:
        """What is committed; a partition without a commit is left out."""

    async def forget(self, group: str, partitions: Collection[Partition]) -> None:
        """Drop the group's commits of these partitions; none there is fine."""

    async def bounds(self, partitions: Collection[Partition]) -> Mapping[Partition, Bounds]:
        """First and next offset of each; a partition that does not exist is left out."""

    async def published(self, topics: Mapping[str, int]) -> Mapping[str, int]:
        """How many records were ever appended to each topic: thousands of them, at once.

        They are given with their numbers of partitions; one that does not exist is left out.
        """

    async def offsets_at(
        self, partitions: Collection[Partition], timestamp_ms: int
    ) -> Mapping[Partition, int]:
        """First offset at or after that time, per partition; the end where there is none."""

    async def topic_names(self) -> Collection[str]:
        """Of all topics in the namespace, whoever made them; in no order."""

    async def copies(self) -> Mapping[str, Copies]:
        """How often the log has each topic of `topic_names`; none where it has no brokers."""

    async def partitions(self, topic: str) -> Sequence[Partition]:
        """The topic's partitions in order; TopicNotFoundError."""

    async def create_topic(self, topic: LogTopic) -> None:
        """Create it and return when it can be appended to.

        One that exists is brought to `topic` as by `alter_topic`.
        """

    async def alter_topic(self, topic: LogTopic) -> None:
        """Set retention and size; add partitions up to the number asked for.

        They never become fewer.
        """

    async def delete_topic(self, name: str) -> None:
        """Delete it with its records; none there is fine."""

    async def ping(self) -> None:
        """Return if the log answers."""


@dataclass(slots=True)
class ReleaseOnce:
    """A `Release` that runs `action` the first time it is called."""

    action: Release
    _called: bool = field(default=False, init=False)

    def __call__(self) -> None:
        """Run the action, once."""
        if not self._called:
            self._called = True
            self.action()
