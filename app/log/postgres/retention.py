"""Drops old records, and records of deleted topics, in small steps."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

import structlog

from app.domain.errors import LogUnavailableError
from app.log.postgres.connection import Connection, PostgresConnections
from app.log.postgres.wakeups import Missed, Notice, TopicsChanged

Params = Mapping[str, Any] | Sequence[Any]

logger = structlog.get_logger(__name__)

RECORDS_PER_STATEMENT: Final = 1_000

# A condition of statements that drop records: only one process at a time may do so. The lock is
# held for one statement, and no other lock has this number.
_MINE: Final = "(SELECT pg_try_advisory_xact_lock(4705498215406061313))"
_OLD: Final = b"""
SELECT p.topic_id, p.partition, t.retention_ms
FROM log_partitions p JOIN log_topics t ON t.id = p.topic_id
CROSS JOIN LATERAL (
  SELECT appended_at FROM log_records
  WHERE topic_id = p.topic_id AND partition = p.partition ORDER BY "offset" LIMIT 1
) first
WHERE first.appended_at < now() - t.retention_ms * interval '1 ms'
"""
# Drops the records before the first record that is not expired. The partition's row is locked last,
# just before the commit, so that appends do not wait for the deletion.
_DROP_OLD: Final = f"""
WITH oldest AS MATERIALIZED (
  SELECT "offset", appended_at FROM log_records
  WHERE topic_id = %(topic)s AND partition = %(partition)s AND {_MINE}
  ORDER BY "offset" LIMIT {RECORDS_PER_STATEMENT}
), reached AS (
  SELECT coalesce(
    min("offset") FILTER (WHERE appended_at >= now() - %(ms)s * interval '1 ms'),
    max("offset") + 1
  ) AS start FROM oldest
), dropped AS (
  DELETE FROM log_records
  WHERE topic_id = %(topic)s AND partition = %(partition)s
    AND "offset" < (SELECT start FROM reached)
  RETURNING "offset"
)
UPDATE log_partitions SET start_offset = d.start
FROM (SELECT max("offset") + 1 AS start, count(*) AS records FROM dropped) d
WHERE topic_id = %(topic)s AND partition = %(partition)s AND d.start IS NOT NULL
RETURNING d.records
""".encode()  # noqa: S608 - the statement is made of constants only
_DELETED: Final = b"SELECT id FROM log_topics WHERE name IS NULL"
_DROP_DELETED: Final = f"""
DELETE FROM log_records WHERE (topic_id, partition, "offset") IN (
  SELECT topic_id, partition, "offset" FROM log_records WHERE topic_id = %s AND {_MINE}
  ORDER BY topic_id, partition, "offset" LIMIT {RECORDS_PER_STATEMENT}
)
""".encode()  # noqa: S608 - the statement is made of constants only
_DROP_TOPIC: Final = b"""
DELETE FROM log_topics t WHERE id = %s AND name IS NULL
  AND NOT EXISTS (SELECT FROM log_records r WHERE r.topic_id = t.id)
"""


class Retention:
    """Drops expired records every `interval`, and after the deletion of a topic."""

    def __init__(self, connections: PostgresConnections, interval: timedelta) -> None:
        self._connections = connections
        self._interval = interval
        self._due = asyncio.Event()

    async def run(self) -> None:
        """Drop expired records until cancelled. If this fails, try again after `interval`."""
        while True:
            try:
                await self.drop()
            except LogUnavailableError as error:
                logger.warning("log_retention_failed", error=error.message)
            try:
                async with asyncio.timeout(self._interval.total_seconds()):
                    await self._due.wait()
            except TimeoutError:
                continue

    def receive(self, notice: Notice) -> None:
        """Drop records now, if a topic may have been deleted."""
        if isinstance(notice, TopicsChanged | Missed):
            self._due.set()

    async def drop(self) -> None:
        """Drop all expired records now."""
        self._due.clear()
        for topic_id, partition, retention_ms in await self._connections.run(_rows_of(_OLD)):
            values = {"topic": topic_id, "partition": partition, "ms": retention_ms}
            while await self._connections.run(_dropping(_DROP_OLD, values)):
                continue
        for (topic_id,) in await self._connections.run(_rows_of(_DELETED)):
            while await self._connections.run(_dropping(_DROP_DELETED, [topic_id])):
                continue
            await self._connections.run(_dropping(_DROP_TOPIC, [topic_id]))


def _rows_of(query: bytes) -> Callable[[Connection], Awaitable[list[tuple[Any, ...]]]]:
    async def run(connection: Connection) -> list[tuple[Any, ...]]:
        return await (await connection.execute(query)).fetchall()

    return run


def _dropping(query: bytes, values: Params) -> Callable[[Connection], Awaitable[int]]:
    """Return an operation that runs the statement `query` and returns how many rows it deleted."""

    async def run(connection: Connection) -> int:
        return (await connection.execute(query, values)).rowcount

    return run
