"""Appends to the log in PostgreSQL. Calls that arrive during one transaction share the next one."""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from typing import Final, NamedTuple

import psycopg
import structlog

from app.domain.errors import LogUnavailableError
from app.domain.message import NewRecord, Partition
from app.log.deadlines import CallDeadline
from app.log.interface import LogStats, Position
from app.log.postgres.codec import packed, partition_of_key
from app.log.postgres.connection import (
    CALL_SECONDS_MAX,
    CONNECTION_ERRORS,
    Backoff,
    Connection,
    Connector,
    bounded,
    cut_while_idle,
    one_line,
)
from app.log.postgres.topics import KnownTopic
from app.log.postgres.wakeups import APPENDED, CHANNEL

logger = structlog.get_logger(__name__)

# The time limit of an append. Publishers get a response long before this. The limit ends appends
# for which no caller waits. It is long, because a slow database may need time.
APPEND_TIMEOUT: Final = timedelta(seconds=5)
RECORDS_PER_TRANSACTION: Final = 5_000
BYTES_PER_TRANSACTION: Final = 8 << 20
PENDING_BYTES_MAX: Final = 64 << 20
# From this many records on, COPY is faster than INSERT.
COPY_RECORDS_MIN: Final = 50

# Allocates offsets for the appends of one transaction. All transactions lock the rows in the same
# order, so that no two transactions wait for each other. The UPDATE comes after the lock, so it
# reads the newest version of each row.
_ALLOCATED: Final = f"""
WITH wanted AS (
  SELECT * FROM unnest(%(topics)b::int4[], %(partitions)b::int4[], %(counts)b::int8[])
    AS w(topic_id, partition, records)
), locked AS MATERIALIZED (
  SELECT p.topic_id, p.partition, w.records
  FROM log_partitions p JOIN wanted w USING (topic_id, partition)
  ORDER BY p.topic_id, p.partition FOR NO KEY UPDATE OF p
), allocated AS (
  UPDATE log_partitions p SET next_offset = p.next_offset + l.records
  FROM locked l WHERE p.topic_id = l.topic_id AND p.partition = l.partition
  RETURNING p.topic_id, p.partition, p.next_offset - l.records AS first, p.next_offset
), told AS (
  SELECT a.*, pg_notify(
    '{CHANNEL}', '{APPENDED} ' || t.name || ' ' || a.partition || ' ' || a.next_offset
  ) FROM allocated a JOIN log_topics t ON t.id = a.topic_id
)"""  # noqa: S608 - the statement is made of constants only
_ALLOCATE: Final = f"{_ALLOCATED} SELECT topic_id, partition, first, pg_notify FROM told".encode()  # noqa: S608 - the statement is made of constants only
_INSERT: Final = f"""{_ALLOCATED}, inserted AS (
  INSERT INTO log_records
    (topic_id, partition, "offset", timestamp_ms, key, value, headers)
  SELECT a.topic_id, a.partition, a.first + r.place, r.timestamp_ms, r.key, r.value, r.headers
  FROM unnest(
    %(row_topics)b::int4[], %(row_partitions)b::int4[], %(places)b::int8[],
    %(timestamps)b::int8[], %(keys)b::bytea[], %(values)b::bytea[], %(headers)b::bytea[]
  ) AS r(topic_id, partition, place, timestamp_ms, key, value, headers)
  JOIN allocated a USING (topic_id, partition)
)
SELECT topic_id, partition, first, pg_notify FROM told""".encode()  # noqa: S608 - the statement is made of constants only
_COPY: Final = b"""
COPY log_records (topic_id, partition, "offset", timestamp_ms, key, value, headers)
FROM STDIN (FORMAT binary)
"""
_COPY_TYPES: Final = ("int4", "int4", "int8", "int8", "bytea", "bytea", "bytea")

PartitionId = tuple[int, int]
"""A topic's id and a partition."""


class LogRow(NamedTuple):
    """A record to be stored. It gets its offset when it is stored."""

    topic_id: int
    partition: int
    timestamp_ms: int
    key: bytes | None
    value: bytes
    headers: bytes


@dataclass(slots=True, eq=False)
class PostgresAppend:
    """One call of `append`: its rows, and a future for the offsets of the rows.

    The future's result is None if the topic was deleted.
    """

    rows: list[LogRow]
    size: int
    offsets: asyncio.Future[list[int] | None]


class Appender:
    """Writes the append calls of this process, one transaction at a time."""

    def __init__(self, connector: Connector, stats: LogStats) -> None:
        self._connector = connector
        self._stats = stats
        self._connection: Connection | None = None
        self._calls: deque[PostgresAppend] = deque()
        self._pending_bytes = 0
        self._some = asyncio.Event()
        self._turns = count()
        self._patience = CallDeadline(APPEND_TIMEOUT)

    async def append(
        self, topic: str, known: KnownTopic, records: Sequence[NewRecord]
    ) -> Sequence[Position] | None:
        """Append the records. Return their positions when they are durable.

        The result is None if the topic `known` was deleted.

        Raises:
            LogUnavailableError: The append took longer than APPEND_TIMEOUT.
        """
        call = self._enqueued(known, records)
        try:
            with self._patience.limit():
                offsets = await call.offsets
        except TimeoutError as error:
            raise LogUnavailableError("the log in PostgreSQL did not answer in time") from error
        if offsets is None:
            return None
        return [
            Position(Partition(topic, row.partition), offset)
            for row, offset in zip(call.rows, offsets, strict=True)
        ]

    async def run(self) -> None:
        """Write waiting calls until cancelled."""
        backoff = Backoff()
        try:
            while True:
                await self._some.wait()
                try:
                    await self._write_next()
                    backoff.reset()
                except CONNECTION_ERRORS as error:
                    logger.warning("log_append_failed", error=str(error))
                    await self._disconnect()
                    await backoff.wait()
        finally:
            await self._disconnect()
            while calls := self._take():
                self._fail(calls, LogUnavailableError("the log is closed"))

    def _enqueued(self, known: KnownTopic, records: Sequence[NewRecord]) -> PostgresAppend:
        if self._pending_bytes > PENDING_BYTES_MAX:
            raise LogUnavailableError("too many records wait to be appended")
        now_ms = time.time_ns() // 1_000_000
        rows = [self._row(known, record, now_ms) for record in records]
        size = sum(len(row.value) + len(row.headers) for row in rows)
        call = PostgresAppend(rows, size, asyncio.get_running_loop().create_future())
        self._pending_bytes += size
        self._calls.append(call)
        self._some.set()
        return call

    def _row(self, known: KnownTopic, record: NewRecord, now_ms: int) -> LogRow:
        if record.key is None:
            partition = next(self._turns) % known.partitions
        else:
            partition = partition_of_key(record.key, known.partitions)
        timestamp_ms = now_ms if record.timestamp_ms is None else record.timestamp_ms
        return LogRow(
            known.id, partition, timestamp_ms, record.key, record.value, packed(record.headers)
        )

    async def _write_next(self) -> None:
        """Write waiting calls, up to the limits of a transaction.

        While there is no connection, the calls wait.
        """
        connection = await self._connected()
        calls = self._take()
        if not calls:
            return
        try:
            with bounded(connection, CALL_SECONDS_MAX):
                await self._write(connection, calls)
        except CONNECTION_ERRORS as error:
            # Fail the calls, and do not retry. The transaction may have been committed, so only the
            # caller may decide to retry.
            message = f"the append was not acknowledged: {one_line(error)}"
            self._fail(calls, LogUnavailableError(message))
            raise
        except BaseException:
            self._fail(calls, LogUnavailableError("the log was closed"))
            raise

    async def _write(self, connection: Connection, calls: Sequence[PostgresAppend]) -> None:
        rows = [row for call in calls for row in call.rows]
        if len(rows) < COPY_RECORDS_MIN:
            first = await _inserted(connection, rows)
        else:
            first = await _copied(connection, rows)
        offsets = iter(
            [
                None if (start := first.get(row[:2])) is None else start + index
                for row, index in zip(rows, _indexes(rows), strict=True)
            ]
        )
        for call in calls:
            stored = [offset for _, offset in zip(call.rows, offsets, strict=False)]
            self._answer(call, stored)

    def _answer(self, call: PostgresAppend, stored: list[int | None]) -> None:
        offsets = [offset for offset in stored if offset is not None]
        self._stats.appended_records += len(offsets)
        if not call.offsets.done():
            # The result of the call is None if the topic was deleted. A topic loses all its
            # partitions at once, so either all rows of a call are stored or none.
            call.offsets.set_result(offsets if len(offsets) == len(stored) else None)

    def _take(self) -> list[PostgresAppend]:
        """Take the calls of the next transaction: at least one, if any caller still waits."""
        taken: list[PostgresAppend] = []
        records = size = 0
        while self._calls:
            call = self._calls[0]
            if taken and (
                records + len(call.rows) > RECORDS_PER_TRANSACTION
                or size + call.size > BYTES_PER_TRANSACTION
            ):
                return taken
            self._calls.popleft()
            self._pending_bytes -= call.size
            if not call.offsets.done():
                taken.append(call)
                records += len(call.rows)
                size += call.size
        self._some.clear()
        return taken

    def _fail(self, calls: Sequence[PostgresAppend], error: LogUnavailableError) -> None:
        for call in calls:
            if not call.offsets.done():
                call.offsets.set_exception(error)

    async def _connected(self) -> Connection:
        if self._connection is not None and cut_while_idle(self._connection):
            await self._disconnect()
        if self._connection is None:
            self._connection = await self._connector.open("append")
        return self._connection

    async def _disconnect(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            await connection.close()


def _indexes(rows: Sequence[LogRow]) -> list[int]:
    """Return the position of each row among the rows of the same partition, from 0 on."""
    counts: Counter[PartitionId] = Counter()
    found = []
    for row in rows:
        found.append(counts[row[:2]])
        counts[row[:2]] += 1
    return found


def _wanted(rows: Sequence[LogRow]) -> dict[str, list[int]]:
    counts = Counter(row[:2] for row in rows)
    return {
        "topics": [topic_id for topic_id, _ in counts],
        "partitions": [partition for _, partition in counts],
        "counts": list(counts.values()),
    }


async def _inserted(connection: Connection, rows: Sequence[LogRow]) -> dict[PartitionId, int]:
    """Store `rows` in one statement; return the first offset of each existing partition."""
    topics, partitions, timestamps, keys, values, headers = zip(*rows, strict=True)
    columns = {
        "row_topics": list(topics),
        "row_partitions": list(partitions),
        "places": _indexes(rows),
        "timestamps": list(timestamps),
        "keys": list(keys),
        "values": list(values),
        "headers": list(headers),
    }
    cursor = connection.cursor(binary=True)
    await cursor.execute(_INSERT, _wanted(rows) | columns)
    return {(topic, partition): first for topic, partition, first, _ in await cursor.fetchall()}


async def _copied(
    connection: psycopg.AsyncConnection, rows: Sequence[LogRow]
) -> dict[PartitionId, int]:
    """Store `rows` by COPY; return the first offset of each existing partition."""
    async with connection.transaction():
        cursor = connection.cursor(binary=True)
        await cursor.execute(_ALLOCATE, _wanted(rows))
        allocated = await cursor.fetchall()
        first = {(topic, partition): start for topic, partition, start, _ in allocated}
        async with cursor.copy(_COPY) as copy:
            copy.set_types(_COPY_TYPES)
            for row, index in zip(rows, _indexes(rows), strict=True):
                if (start := first.get(row[:2])) is not None:
                    await copy.write_row((row[0], row[1], start + index, *row[2:]))
    return first
