"""The message log in PostgreSQL: implements the log's interface, and has connections and tasks."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from typing import Final

from app.domain.catalogue.topic import Ack
from app.domain.durability import Copies
from app.domain.errors import MessageTooLargeError, TopicNotFoundError
from app.domain.message import NewRecord, Partition
from app.log.interface import (
    Bounds,
    Chunk,
    Committed,
    FoundTopic,
    LogStats,
    LogTopic,
    MessageLog,
    Ownership,
    Position,
    Tail,
)
from app.log.postgres.appending import Appender
from app.log.postgres.connection import Connection, Connector, PostgresConnections, running
from app.log.postgres.offsets import Offsets
from app.log.postgres.ownership import MemberIdentity, PostgresOwnership
from app.log.postgres.reading import PostgresReader
from app.log.postgres.retention import Retention
from app.log.postgres.tail import PostgresTail
from app.log.postgres.topics import Topics
from app.log.postgres.wakeups import Appended, Missed, Notice, Wakeups
from app.postgres.urls import DatabaseUrl

RETENTION_INTERVAL: Final = timedelta(seconds=30)
# The time limit of a topic look-up, in seconds. With this limit, a publisher gets a response within
# two seconds.
_LOOKUP_SECONDS_MAX: Final = 1.2
_PING_SECONDS_MAX: Final = 1.5
_POLL_SECONDS: Final = 1.0


@asynccontextmanager
async def postgres_log(
    database_url: DatabaseUrl, *, namespace: str, retention_interval: timedelta = RETENTION_INTERVAL
) -> AsyncIterator[MessageLog]:
    """Open the log in the migrated database at `database_url`, which may be down at first.

    The log needs database sessions that stay open, because it listens for notices and holds locks.
    So it must connect to the server directly, not through a pooler. Every `retention_interval`, one
    of the processes drops old records.
    """
    connector = Connector(database_url)
    log = PostgresLog(connector, namespace)
    retention = Retention(log.connections, retention_interval)
    try:
        with (
            log.wakeups.notifying(log.receive),
            log.wakeups.notifying(log.topics.receive),
            log.wakeups.notifying(retention.receive),
        ):
            async with running(log.wakeups.run(), log.appender.run(), retention.run()):
                yield log
    finally:
        await log.connections.close()


class PostgresLog:
    """Implements `MessageLog` with tables. `postgres_log` runs the tasks that this log needs."""

    def __init__(self, connector: Connector, namespace: str) -> None:
        self.stats = LogStats()
        self.connections = PostgresConnections(connector)
        self.wakeups = Wakeups(connector, namespace)
        self.topics = Topics(self.connections, namespace)
        self.appender = Appender(connector, self.stats)
        self._connector = connector
        self._namespace = namespace
        self._reader = PostgresReader(namespace)
        self._offsets = Offsets(self.connections, namespace, self.stats)

    def receive(self, notice: Notice) -> None:
        """Use new connections after missed notices: another server may be the primary now."""
        if isinstance(notice, Missed):
            self.connections.renew()

    async def append(
        self, topic: str, records: Sequence[NewRecord], *, ack: Ack = Ack.ALL
    ) -> Sequence[Position]:
        """Append `records`; return their positions when the server has written them to its disk.

        The value of `ack` makes no difference.

        Raises:
            MessageTooLargeError: A record is larger than its topic allows; nothing is stored.
        """
        del ack
        if not records:
            return []
        # Try an append twice. The topic may have been deleted and created again since it was looked
        # up.
        for _ in range(2):
            known = await self.topics.find(topic, seconds_max=_LOOKUP_SECONDS_MAX)
            if any(len(record.value) > known.message_size_max for record in records):
                raise MessageTooLargeError(
                    f"messages of {topic} have at most {known.message_size_max} bytes"
                )
            positions = await self.appender.append(topic, known, records)
            if positions is not None:
                return positions
            self.topics.forget(topic)
        raise TopicNotFoundError(f"the log has no topic {topic}")

    async def fetch(
        self, partition: Partition, offset: int, *, bytes_max: int, wait: timedelta = timedelta()
    ) -> Chunk:
        """Return a chunk from `offset` on.

        Raises:
            TopicNotFoundError: The partition does not exist.
        """
        deadline = asyncio.get_running_loop().time() + wait.total_seconds()
        appended = asyncio.Event()

        def receive(notice: Notice) -> None:
            if isinstance(notice, Missed) or (
                isinstance(notice, Appended) and notice.partition == partition
            ):
                appended.set()

        with self.wakeups.notifying(receive):
            while True:
                appended.clear()
                chunk = await self._read(partition, offset, bytes_max)
                if chunk.records or chunk.gap or not await _woken(appended, deadline):
                    return chunk

    @asynccontextmanager
    async def _tail(self) -> AsyncIterator[PostgresTail]:
        tail = PostgresTail(self._connector, self._reader, self.stats)
        with self.wakeups.notifying(tail.receive):
            try:
                yield tail
            finally:
                await tail.close()

    def tail(self) -> AbstractAsyncContextManager[Tail]:
        """Open a tail reader on a separate connection."""
        return self._tail()

    @asynccontextmanager
    async def _ownership(self, membership: MemberIdentity) -> AsyncIterator[PostgresOwnership]:
        ownership = PostgresOwnership(self._connector, membership)
        try:
            with self.wakeups.notifying(ownership.receive):
                async with running(ownership.run()):
                    yield ownership
        finally:
            await ownership.leave(self.connections)

    def ownership(
        self,
        *,
        member: str,
        capacity: float = 1.0,
        revoke_timeout: timedelta = timedelta(seconds=5),
    ) -> AbstractAsyncContextManager[Ownership]:
        """Join the processes that own partitions, as a member with a separate connection."""
        membership = MemberIdentity(
            member=member,
            capacity=capacity,
            namespace=self._namespace,
            revoke_timeout=revoke_timeout,
        )
        return self._ownership(membership)

    async def commit(
        self, offsets: Mapping[str, Mapping[Partition, Committed]]
    ) -> Mapping[tuple[str, Partition], str]:
        """Commit all positions in one transaction. Return the failed ones, each with the reason."""
        return await self._offsets.commit(offsets)

    async def committed(
        self, groups: Mapping[str, Collection[Partition]]
    ) -> Mapping[str, Mapping[Partition, Committed]]:
        """Return the committed positions of groups."""
        return await self._offsets.committed(groups)

    async def forget(self, group: str, partitions: Collection[Partition]) -> None:
        """Delete the group's commits of these partitions."""
        await self._offsets.forget(group, partitions)

    async def bounds(self, partitions: Collection[Partition]) -> Mapping[Partition, Bounds]:
        """Return the first and the next offset of each partition that exists."""
        return await self.connections.run(
            lambda connection: self._reader.bounds(connection, partitions)
        )

    async def published(self, topics: Mapping[str, int]) -> Mapping[str, int]:
        """Return how many records were ever appended to each topic that exists."""
        return await self.connections.run(
            lambda connection: self._reader.published(connection, topics)
        )

    async def offsets_at(
        self, partitions: Collection[Partition], timestamp_ms: int
    ) -> Mapping[Partition, int]:
        """Return, for each partition, the first offset at or after that time.

        A record is found even if its publisher's clock is up to a minute ahead of the server's.
        """
        return await self.connections.run(
            lambda connection: self._reader.offsets_at(connection, partitions, timestamp_ms)
        )

    async def copies(self) -> Mapping[str, Copies]:
        """Return an empty mapping, because this log has no replicas of topics."""
        return {}

    async def numbering_problem(self) -> str:
        """Return an empty text, because this log needs no sequence numbers for appends.

        An append whose acknowledgement was lost is never sent again.
        """
        return ""

    async def topic_names(self) -> Collection[str]:
        """Return the names of all topics in the namespace."""
        return await self.topics.names()

    async def partition_counts(self, topics: Collection[str]) -> Mapping[str, int]:
        """Return the number of partitions of each topic that exists."""
        return await self.topics.partition_counts(topics)

    async def partitions(self, topic: str) -> Sequence[Partition]:
        """Return the topic's partitions in order.

        Raises:
            TopicNotFoundError: The topic does not exist.
        """
        return await self.topics.partitions(topic)

    async def topic(self, name: str) -> FoundTopic:
        """Return the topic as it is in the log, whichever program created it."""
        return await self.topics.topic(name)

    async def create_topic(self, topic: LogTopic) -> None:
        """Create the topic. If it exists, change its settings to those of `topic`."""
        await self.topics.create(topic)

    async def alter_topic(self, topic: LogTopic) -> None:
        """Set the topic's retention and message size, and add partitions.

        Raises:
            TopicNotFoundError: The topic does not exist.
        """
        await self.topics.alter(topic)

    async def delete_topic(self, name: str) -> None:
        """Delete the topic; its records are dropped soon after."""
        await self.topics.delete(name)

    async def ping(self) -> None:
        """Check that the server responds.

        Raises:
            LogUnavailableError: The server does not respond.
        """

        async def answer(connection: Connection) -> None:
            await connection.execute(b"SELECT 1")

        await self.connections.run(answer, seconds_max=_PING_SECONDS_MAX)

    async def _read(self, partition: Partition, offset: int, bytes_max: int) -> Chunk:
        read = await self.connections.run(
            lambda connection: self._reader.chunks(connection, {partition: offset}, bytes_max)
        )
        if not read:
            raise TopicNotFoundError(f"the log has no partition {partition}")
        ((chunk, _),) = read
        self.stats.fetches += 1
        self.stats.fetched_records += len(chunk.records)
        self.stats.fetched_bytes += chunk.size
        return chunk


async def _woken(appended: asyncio.Event, deadline: float) -> bool:
    """Wait for a notice, or until the next poll is due. Return False if `deadline` had passed."""
    now = asyncio.get_running_loop().time()
    if now >= deadline:
        return False
    try:
        async with asyncio.timeout_at(min(deadline, now + _POLL_SECONDS)):
            await appended.wait()
    except TimeoutError:
        return True
    return True
