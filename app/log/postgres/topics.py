"""Topics of the embedded log: look-up, creation, changes and deletion."""

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from weakref import WeakValueDictionary

from app.domain.errors import LogUnavailableError, TopicNotFoundError
from app.domain.message import Partition
from app.log.interface import FoundTopic, LogTopic
from app.log.postgres.connection import CALL_SECONDS_MAX, Connection, PostgresConnections
from app.log.postgres.wakeups import CHANNEL, TOPICS, Missed, Notice, TopicsChanged

_KNOWN_SECONDS_MAX: Final = 5.0

_FIND: Final = b"""
SELECT t.id, count(*), t.message_size_max, t.retention_ms
FROM log_topics t JOIN log_partitions p ON p.topic_id = t.id
WHERE t.name = %s GROUP BY t.id
"""
_NAMES: Final = b"SELECT name FROM log_topics WHERE starts_with(name, %s)"
_COUNTS: Final = b"""
SELECT t.name, count(*)
FROM log_topics t JOIN log_partitions p ON p.topic_id = t.id
WHERE t.name = ANY(%s) GROUP BY t.id
"""
_CREATE: Final = b"""
INSERT INTO log_topics (name, retention_ms, message_size_max)
VALUES (%(name)s, %(retention_ms)s, %(message_size_max)s) ON CONFLICT (name) DO NOTHING
"""
_CHANGE: Final = b"""
UPDATE log_topics SET retention_ms = %(retention_ms)s, message_size_max = %(message_size_max)s
WHERE name = %(name)s RETURNING id
"""
_ADD_PARTITIONS: Final = b"""
INSERT INTO log_partitions (topic_id, partition)
SELECT %s, generate_series(0, %s - 1) ON CONFLICT DO NOTHING
"""
# Removes a topic's name. From then on, the topic does not exist for anyone. Its records are dropped
# later in small steps.
_UNNAME: Final = b"UPDATE log_topics SET name = NULL WHERE name = %s RETURNING id"
# Deletes a topic's partitions. First it locks the partitions in the same order as appends do, so
# that no two transactions wait for each other.
_DROP_PARTITIONS: Final = b"""
WITH locked AS (
  SELECT topic_id, partition FROM log_partitions WHERE topic_id = %s
  ORDER BY topic_id, partition FOR UPDATE
)
DELETE FROM log_partitions p USING locked l
WHERE p.topic_id = l.topic_id AND p.partition = l.partition
"""
_TELL: Final = f"SELECT pg_notify('{CHANNEL}', '{TOPICS} ' || %s)".encode()


@dataclass(frozen=True, slots=True)
class KnownTopic:
    """A topic as it was in the log at `known_at` (monotonic clock, in seconds)."""

    id: int
    partitions: int
    message_size_max: int
    retention: timedelta
    known_at: float


class Topics:
    """The topics of one namespace."""

    def __init__(self, connections: PostgresConnections, namespace: str) -> None:
        self._connections = connections
        self._namespace = namespace
        self._known: dict[str, KnownTopic] = {}
        # One lock for each topic that is being looked up. The caller that does the look-up holds
        # the lock, and other callers for the topic wait.
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def find(self, name: str, *, seconds_max: float = CALL_SECONDS_MAX) -> KnownTopic:
        """Return the topic, as it was at most a few seconds ago.

        If several callers wait for the topic, they continue in the order in which they called. So
        their appends keep this order.

        Raises:
            TopicNotFoundError: The topic does not exist.
        """
        turn = self._turns.get(name)
        # The cached topic is used only if no caller waits for a look-up. Otherwise this caller
        # would overtake the waiting callers.
        if turn is None and (known := self._fresh(name)):
            return known
        turn = turn or self._turns.setdefault(name, asyncio.Lock())
        deadline = asyncio.get_running_loop().time() + seconds_max
        await _reached(turn, deadline)
        try:
            return self._fresh(name) or await self._looked_up(name, deadline)
        finally:
            turn.release()

    def forget(self, name: str) -> None:
        """Forget the topic, so that it is looked up again."""
        self._known.pop(name, None)

    def receive(self, notice: Notice) -> None:
        """Forget all topics if a topic may have changed."""
        if isinstance(notice, TopicsChanged | Missed):
            self._known.clear()

    async def partitions(self, name: str) -> Sequence[Partition]:
        """Return the topic's current partitions.

        Raises:
            TopicNotFoundError: The topic does not exist.
        """
        self.forget(name)
        found = await self.find(name)
        return [Partition(name, index) for index in range(found.partitions)]

    async def topic(self, name: str) -> FoundTopic:
        """Return the topic as it is now.

        Raises:
            TopicNotFoundError: The topic does not exist.
        """
        self.forget(name)
        found = await self.find(name)
        return FoundTopic(found.partitions, found.retention)

    async def names(self) -> Collection[str]:
        """Return the names of all topics of the namespace."""
        return await self._connections.run(self._all_names)

    async def partition_counts(self, topics: Collection[str]) -> Mapping[str, int]:
        """Return the number of partitions of each topic that exists."""
        return await self._connections.run(
            lambda connection: self._partition_counts(connection, topics)
        )

    async def create(self, topic: LogTopic) -> None:
        """Create the topic. If it exists, change it to these settings."""
        await self._connections.run(lambda connection: self._write(connection, topic, create=True))

    async def alter(self, topic: LogTopic) -> None:
        """Change an existing topic to these settings.

        Raises:
            TopicNotFoundError: The topic does not exist.
        """
        if not await self._connections.run(
            lambda connection: self._write(connection, topic, create=False)
        ):
            raise TopicNotFoundError(f"the log has no topic {topic.name}")

    async def delete(self, name: str) -> None:
        """Delete the topic, if it exists."""
        await self._connections.run(lambda connection: self._delete(connection, name))

    def _fresh(self, name: str) -> KnownTopic | None:
        known = self._known.get(name)
        if known and time.monotonic() - known.known_at < _KNOWN_SECONDS_MAX:
            return known
        return None

    async def _looked_up(self, name: str, deadline: float) -> KnownTopic:
        self._known.pop(name, None)
        found = await self._connections.run(
            lambda connection: self._find(connection, name),
            seconds_max=deadline - asyncio.get_running_loop().time(),
        )
        if found is None:
            raise TopicNotFoundError(f"the log has no topic {name}")
        self._known[name] = found
        return found

    async def _find(self, connection: Connection, name: str) -> KnownTopic | None:
        known_at = time.monotonic()
        cursor = await connection.execute(_FIND, [self._namespace + name])
        row = await cursor.fetchone()
        if row is None:
            return None
        topic_id, partitions, message_size_max, retention_ms = row
        retention = timedelta(milliseconds=retention_ms)
        return KnownTopic(topic_id, partitions, message_size_max, retention, known_at)

    async def _all_names(self, connection: Connection) -> Collection[str]:
        cursor = await connection.execute(_NAMES, [self._namespace])
        return [name.removeprefix(self._namespace) for (name,) in await cursor.fetchall()]

    async def _partition_counts(
        self, connection: Connection, topics: Collection[str]
    ) -> Mapping[str, int]:
        names = [self._namespace + topic for topic in topics]
        cursor = await connection.execute(_COUNTS, [names])
        found = await cursor.fetchall()
        return {name.removeprefix(self._namespace): count for name, count in found}

    async def _write(self, connection: Connection, topic: LogTopic, *, create: bool) -> bool:
        values = {
            "name": self._namespace + topic.name,
            "retention_ms": int(topic.retention.total_seconds() * 1000),
            "message_size_max": topic.message_size_max,
        }
        async with connection.transaction():
            if create:
                await connection.execute(_CREATE, values)
            cursor = await connection.execute(_CHANGE, values)
            if (row := await cursor.fetchone()) is None:
                return False
            await connection.execute(_ADD_PARTITIONS, [row[0], topic.partitions])
            await connection.execute(_TELL, [values["name"]])
        self.forget(topic.name)
        return True

    async def _delete(self, connection: Connection, name: str) -> None:
        async with connection.transaction():
            cursor = await connection.execute(_UNNAME, [self._namespace + name])
            if row := await cursor.fetchone():
                await connection.execute(_DROP_PARTITIONS, row)
                await connection.execute(_TELL, [self._namespace + name])
        self.forget(name)


async def _reached(turn: asyncio.Lock, deadline: float) -> None:
    """Wait until this caller holds the lock `turn`, so that it may look up the topic.

    Raises:
        LogUnavailableError: `deadline` has passed (seconds of the loop's clock).
    """
    try:
        async with asyncio.timeout_at(deadline):
            await turn.acquire()
    except TimeoutError as error:
        raise LogUnavailableError("the log in PostgreSQL did not answer in time") from error
