"""The interface of the message log, which is the same for every log.

Two adapters (Kafka, PostgreSQL) and the in-memory fake of the tests pass one contract suite
(`tests/contract/test_log.py`). Nothing outside of `app/log` knows which adapter runs.

Names in this interface have no namespace; the adapter adds the namespace. All calls come from one
event loop. If an adapter has threads of its own, they pass their results to this event loop. If the
log does not respond, a call raises `LogUnavailableError` within the adapter's timeouts, unless the
docstring of the call says that it waits.
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Protocol

from app.domain.catalogue.topic import Ack
from app.domain.durability import Copies
from app.domain.message import NewRecord, Partition, Record

UNKNOWN_OFFSET: Final = -1


@dataclass(frozen=True, slots=True)
class Chunk:
    """The records of one partition from `offset` to before `next_offset`, in order.

    `next_offset` may be greater than the last record's offset + 1 (control records, compaction).
    `gap` is true if the log no longer has `offset`, because of retention, or because the topic was
    deleted and created again. Then the chunk has no records, and reading continues at
    `next_offset`, the start of the log. In a gap, `log_end` is the end of the log, if it is known.
    `size` is the number of bytes that were read, decompressed.
    `corrupt` says why the records at `offset` cannot be decoded; it is empty if they can. Then the
    chunk has no records, `next_offset` is `offset`, and the log tries again later.
    """

    partition: Partition
    offset: int
    next_offset: int
    records: Sequence[Record]
    size: int
    gap: bool = False
    log_end: int | None = None
    corrupt: str = ""


@dataclass(frozen=True, slots=True)
class Position:
    """The position of an appended record.

    The offset is UNKNOWN_OFFSET if the log has stored the record, but does not say at which offset.
    """

    partition: Partition
    offset: int


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed position: the next offset to deliver.

    `metadata` is a text that is stored with the position: at most 4,000 bytes of ASCII.
    """

    offset: int
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The offsets of a partition: `start` is the first one, `end` is the next one to be written."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTopic:
    """The wanted settings of a log topic."""

    name: str
    partitions: int
    retention: timedelta
    message_size_max: int


@dataclass(frozen=True, slots=True)
class FoundTopic:
    """A log topic that exists.

    `retention` is `timedelta.max` if records are never dropped.
    """

    partitions: int
    retention: timedelta


@dataclass(frozen=True, slots=True)
class Throttling:
    """A pause that a broker asks for: how long it is, and when it ends (monotonic clock)."""

    seconds: float
    until: float


@dataclass(slots=True)
class LogStats:
    """Totals since the start of this process, for metrics and tests."""

    appended_records: int = 0
    fetched_records: int = 0
    fetched_bytes: int = 0
    fetches: int = 0
    # The number of fetches from replicas that are not the leader of their partition.
    follower_fetches: int = 0
    commits: int = 0
    # The total time, in seconds, for which brokers asked this process to send nothing, because a
    # quota was used up.
    throttled_seconds: float = 0.0
    # The last pause that each broker has asked for, by the number of the broker.
    throttles: dict[int, Throttling] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Assigned:
    """Tells that this process owns these partitions from now on."""

    partitions: frozenset[Partition]


@dataclass(frozen=True, slots=True)
class Revoked:
    """Tells that these partitions will move to another member.

    The receiver finishes its work, commits, and then calls `release`. The adapter waits for this
    call at most `revoke_timeout`, and sends heartbeats meanwhile. After this time, other members
    get the partitions in any case.
    """

    partitions: frozenset[Partition]
    release: "Release"


@dataclass(frozen=True, slots=True)
class Lost:
    """Tells that this process no longer owns these partitions.

    Another process may own them already.

    The receiver must stop delivering these partitions, and commit nothing for them.
    """

    partitions: frozenset[Partition]


OwnershipEvent = Assigned | Revoked | Lost


class Release(Protocol):
    """A function that lets another member have the revoked partitions.

    Only the first call counts.
    """

    def __call__(self) -> None:
        """Let another member have the partitions."""


class Ownership(Protocol):
    """This process as a member of the ownership group (`angelia.workers`)."""

    def subscribe(self, topics: Collection[str]) -> None:
        """Take part in the distribution of these topics' partitions, and of no other topics.

        If a topic does not exist yet, its partitions are distributed when it is created.
        """

    def events(self) -> AsyncIterator[OwnershipEvent]:
        """Yield assignments and revocations in order.

        This waits without a time limit. While the log is down, there is no event, or a `Lost`
        event.
        """


class Tail(Protocol):
    """Reads new records of any number of partitions by long polls, each from its own offset."""

    def follow(self, partition: Partition, offset: int) -> None:
        """Read `partition` from `offset` on.

        A partition that is already followed is then read from `offset`.
        """

    def unfollow(self, partition: Partition) -> None:
        """Stop reading the partition.

        A chunk that was requested before may still come.
        """

    async def chunks(self) -> Sequence[Chunk]:
        """Wait for records, and return at least one chunk.

        While the log is down, this waits without a time limit.
        """


class MessageLog(Protocol):
    """The message log: appends, reads, ownership of partitions, commits, and administration."""

    @property
    def stats(self) -> LogStats:
        """The totals of this process."""

    async def append(
        self, topic: str, records: Sequence[NewRecord], *, ack: Ack = Ack.ALL
    ) -> Sequence[Position]:
        """Append `records`.

        Return their positions in the same order when the log has acknowledged them.

        Records with the same key keep their order. Concurrent calls are grouped.

        Raises:
            LogUnavailableError: Each record may or may not be stored.
            MessageTooLargeError: A record is larger than its topic allows.
            MessageRefusedError: The log refuses a record as invalid.
            TopicNotFoundError: The log has no such topic.
        """

    async def fetch(
        self, partition: Partition, offset: int, *, bytes_max: int, wait: timedelta = timedelta()
    ) -> Chunk:
        """Return the records from `offset` on: about `bytes_max` bytes, and at least one record.

        At the end of the partition, wait at most `wait` for a new record. If none comes, return an
        empty chunk.

        Raises:
            TopicNotFoundError: The partition does not exist.
            LogUnreadableError: The records at `offset` cannot be decoded.
        """

    def tail(self) -> AbstractAsyncContextManager[Tail]:
        """Open a separate reader of new records."""

    def ownership(
        self,
        *,
        member: str,
        capacity: float = 1.0,
        revoke_timeout: timedelta = timedelta(seconds=5),
    ) -> AbstractAsyncContextManager[Ownership]:
        """Join the group as `member`, a name for users to read.

        The number of partitions that this member gets is proportional to `capacity`. At the end of
        the block, all its partitions are released immediately, without further events.
        """

    async def commit(
        self, offsets: Mapping[str, Mapping[Partition, Committed]]
    ) -> Mapping[tuple[str, Partition], str]:
        """Store positions, given by group and partition.

        Returns:
            The positions that failed, with the reason. All others are durable.
        """

    async def committed(
        self, groups: Mapping[str, Collection[Partition]]
    ) -> Mapping[str, Mapping[Partition, Committed]]:
        """Return the committed positions of groups.

        The result leaves out partitions without a committed position.
        """

    async def forget(self, group: str, partitions: Collection[Partition]) -> None:
        """Delete the group's commits of these partitions, if there are any."""

    async def bounds(self, partitions: Collection[Partition]) -> Mapping[Partition, Bounds]:
        """Return the first and the next offset of each partition that exists."""

    async def published(self, topics: Mapping[str, int]) -> Mapping[str, int]:
        """Return how many records were ever appended to each topic. Fast for thousands of topics.

        `topics` has the number of partitions of each topic. Topics that do not exist are left out.
        """

    async def offsets_at(
        self, partitions: Collection[Partition], timestamp_ms: int
    ) -> Mapping[Partition, int]:
        """Return, for each partition, the first offset at or after that time.

        If a partition has no such offset, return the end of the partition.
        """

    async def topic_names(self) -> Collection[str]:
        """Return the names of all topics in the namespace, in any order."""

    async def partition_counts(self, topics: Collection[str]) -> Mapping[str, int]:
        """Return the number of partitions of each topic. Fast for thousands of topics.

        Topics that do not exist are left out.
        """

    async def copies(self) -> Mapping[str, Copies]:
        """Return the number of replicas of each topic; empty if the log has no brokers."""

    async def partitions(self, topic: str) -> Sequence[Partition]:
        """Return the topic's partitions in order.

        Raises:
            TopicNotFoundError: The topic does not exist.
        """

    async def topic(self, name: str) -> FoundTopic:
        """Return the topic as it is in the log, whichever program created it.

        Raises:
            TopicNotFoundError: The topic does not exist.
        """

    async def create_topic(self, topic: LogTopic) -> None:
        """Create the topic, and return when records can be appended to it.

        An existing topic is changed to `topic`, as by `alter_topic`.
        """

    async def alter_topic(self, topic: LogTopic) -> None:
        """Set retention and maximum message size, and add partitions up to the requested number.

        Partitions are never removed.
        """

    async def delete_topic(self, name: str) -> None:
        """Delete the topic with its records, if it exists."""

    async def numbering_problem(self) -> str:
        """Return why an append whose acknowledgement is lost cannot be sent again safely.

        The result is empty if the log stores an append only once even if it is sent twice, or if no
        append is ever sent twice.
        """

    async def ping(self) -> None:
        """Return if the log responds; otherwise raise an error."""


@dataclass(slots=True)
class ReleaseOnce:
    """A `Release` that runs `action` the first time it is called."""

    action: Release
    _called: bool = field(default=False, init=False)

    def __call__(self) -> None:
        """Run the action, the first time that this is called."""
        if not self._called:
            self._called = True
            self.action()
