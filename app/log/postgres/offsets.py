"""The committed positions of groups in partitions."""

from collections.abc import Collection, Mapping
from typing import Final

from app.domain.message import Partition
from app.log.interface import Committed, LogStats
from app.log.postgres.connection import Connection, PostgresConnections

METADATA_BYTES_MAX: Final = 4_096

# Stores commits. All transactions write the rows in the same order, so that no two transactions
# wait for each other. The rows that RETURNING returns show which partitions exist.
_COMMIT: Final = b"""
INSERT INTO log_offsets AS o (group_name, topic_id, partition, "offset", metadata)
SELECT w.group_name, t.id, p.partition, w."offset", w.metadata
FROM unnest(%b::text[], %b::text[], %b::int4[], %b::int8[], %b::text[])
  WITH ORDINALITY AS w(group_name, topic, partition, "offset", metadata, n)
JOIN log_topics t ON t.name = w.topic
JOIN log_partitions p ON p.topic_id = t.id AND p.partition = w.partition
ORDER BY w.group_name, t.id, p.partition
ON CONFLICT (group_name, topic_id, partition) DO UPDATE SET
  "offset" = excluded."offset", metadata = excluded.metadata, committed_at = now()
RETURNING o.group_name, o.partition, (SELECT name FROM log_topics WHERE id = o.topic_id)
"""
_COMMITTED: Final = b"""
SELECT w.group_name, w.topic, w.partition, o."offset", o.metadata
FROM unnest(%b::text[], %b::text[], %b::int4[]) AS w(group_name, topic, partition)
JOIN log_topics t ON t.name = w.topic
JOIN log_offsets o
  ON o.group_name = w.group_name AND o.topic_id = t.id AND o.partition = w.partition
"""
_FORGET: Final = b"""
DELETE FROM log_offsets o USING unnest(%b::text[], %b::int4[]) AS w(topic, partition)
JOIN log_topics t ON t.name = w.topic
WHERE o.group_name = %b AND o.topic_id = t.id AND o.partition = w.partition
"""

CommitKey = tuple[str, Partition]
"""A group and a partition."""


class Offsets:
    """The committed positions of the groups of one namespace."""

    def __init__(self, connections: PostgresConnections, namespace: str, stats: LogStats) -> None:
        self._connections = connections
        self._namespace = namespace
        self._stats = stats

    async def commit(
        self, offsets: Mapping[str, Mapping[Partition, Committed]]
    ) -> dict[CommitKey, str]:
        """Store the positions durably; return the positions that failed, with the reason."""
        requested = {
            (group, partition): committed
            for group, partitions in offsets.items()
            for partition, committed in partitions.items()
        }
        failed = {key: why for key, committed in requested.items() if (why := refusal(committed))}
        good = {key: committed for key, committed in requested.items() if key not in failed}
        stored: set[CommitKey] = set()
        if good:
            stored = await self._connections.run(lambda connection: self._store(connection, good))
        self._stats.commits += len(stored)
        return failed | dict.fromkeys(good.keys() - stored, "the log has no such partition")

    async def committed(
        self, groups: Mapping[str, Collection[Partition]]
    ) -> dict[str, dict[Partition, Committed]]:
        """Return the committed positions of every requested group. A group may have none."""
        wanted = [(group, partition) for group in groups for partition in groups[group]]
        found: dict[str, dict[Partition, Committed]] = {group: {} for group in groups}
        if wanted:
            rows = await self._connections.run(lambda connection: self._load(connection, wanted))
            for (group, partition), committed in rows.items():
                found[group][partition] = committed
        return found

    async def forget(self, group: str, partitions: Collection[Partition]) -> None:
        """Delete the group's commits of these partitions."""
        names = [self._namespace + partition.topic for partition in partitions]
        indexes = [partition.index for partition in partitions]

        async def drop(connection: Connection) -> None:
            await connection.execute(_FORGET, [names, indexes, self._namespace + group])

        await self._connections.run(drop)

    async def _store(
        self, connection: Connection, offsets: Mapping[CommitKey, Committed]
    ) -> set[CommitKey]:
        values = offsets.values()
        columns = [
            *self._columns(offsets),
            [committed.offset for committed in values],
            [committed.metadata for committed in values],
        ]
        cursor = await connection.execute(_COMMIT, columns)
        return {self._key(group, topic, index) for group, index, topic in await cursor.fetchall()}

    async def _load(
        self, connection: Connection, keys: Collection[CommitKey]
    ) -> dict[CommitKey, Committed]:
        cursor = await connection.execute(_COMMITTED, self._columns(keys))
        return {
            self._key(group, topic, index): Committed(offset, metadata)
            for group, topic, index, offset, metadata in await cursor.fetchall()
        }

    def _columns(self, keys: Collection[CommitKey]) -> list[list[str] | list[int]]:
        return [
            [self._namespace + group for group, _ in keys],
            [self._namespace + partition.topic for _, partition in keys],
            [partition.index for _, partition in keys],
        ]

    def _key(self, group: str, topic: str, index: int) -> CommitKey:
        partition = Partition(topic.removeprefix(self._namespace), index)
        return group.removeprefix(self._namespace), partition


def refusal(committed: Committed) -> str | None:
    """Return why the position cannot be stored, by Kafka's rules; None if it can be stored."""
    if len(committed.metadata.encode()) > METADATA_BYTES_MAX:
        return f"the metadata is longer than {METADATA_BYTES_MAX} bytes"
    return None
