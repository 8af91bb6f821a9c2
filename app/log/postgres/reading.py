"""Reads records, bounds and times from the tables."""

from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from app.domain.message import Partition, Record
from app.log.interface import Bounds, Chunk
from app.log.postgres.codec import unpacked
from app.log.postgres.connection import Connection

RECORDS_MAX: Final = 1_000

# Reads records. One statement sees one snapshot of the database, so the bounds match the records.
# The sum of sizes leaves out the record itself, so at least one record is always included.
# PostgreSQL knows the size of a large value without reading the value.
_READ: Final = f"""
SELECT w.n, p.start_offset, p.next_offset,
       r."offset", r.timestamp_ms, r.key, r.value, r.headers
FROM unnest(%b::text[], %b::int4[], %b::int8[]) WITH ORDINALITY AS w(name, partition, "offset", n)
JOIN log_topics t ON t.name = w.name
JOIN log_partitions p ON p.topic_id = t.id AND p.partition = w.partition
LEFT JOIN LATERAL (
  SELECT * FROM (
    SELECT l.*, sum(l.size) OVER (ORDER BY l."offset") - l.size AS before FROM (
      SELECT "offset", timestamp_ms, key, value, headers,
             coalesce(octet_length(key), 0) + coalesce(octet_length(value), 0)
               + octet_length(headers) AS size
      FROM log_records
      WHERE topic_id = p.topic_id AND partition = p.partition AND "offset" >= w."offset"
        AND w."offset" BETWEEN p.start_offset AND p.next_offset
      ORDER BY "offset" LIMIT {RECORDS_MAX}
    ) l
  ) s WHERE s.before < %b
) r ON true
ORDER BY w.n, r."offset"
""".encode()  # noqa: S608 - the statement is made of constants only

_BOUNDS: Final = b"""
SELECT t.name, p.partition, p.start_offset, p.next_offset
FROM unnest(%b::text[], %b::int4[]) AS w(name, partition)
JOIN log_topics t ON t.name = w.name
JOIN log_partitions p ON p.topic_id = t.id AND p.partition = w.partition
"""

_PUBLISHED: Final = b"""
SELECT t.name, sum(p.next_offset)::int8
FROM log_topics t JOIN log_partitions p ON p.topic_id = t.id
WHERE t.name = ANY(%b::text[]) GROUP BY t.id
"""

# How far the clocks of publishers may be ahead. Records are in the order of the server's clock. So
# a binary search finds the first record that can have the requested time. From this record on, each
# record's own time is checked.
_CLOCK_SLACK: Final = "60 s"
_OFFSETS_AT: Final = f"""
SELECT t.name, p.partition, coalesce((
  WITH RECURSIVE halves(low, high) AS (
    SELECT p.start_offset, p.next_offset
    UNION ALL
    SELECT CASE WHEN early THEN middle + 1 ELSE low END, CASE WHEN early THEN high ELSE middle END
    FROM (
      SELECT low, high, (low + high) / 2 AS middle, coalesce((
        SELECT appended_at < to_timestamp(%(ms)s / 1000.0) - interval '{_CLOCK_SLACK}'
        FROM log_records l WHERE l.topic_id = p.topic_id AND l.partition = p.partition
          AND l."offset" = (low + high) / 2
      ), true) AS early
      FROM halves WHERE low < high
    ) half
  )
  SELECT l."offset" FROM log_records l
  WHERE l.topic_id = p.topic_id AND l.partition = p.partition AND l.timestamp_ms >= %(ms)s
    AND l."offset" >= (SELECT low FROM halves WHERE low = high)
  ORDER BY l."offset" LIMIT 1
), p.next_offset)
FROM unnest(%(names)b::text[], %(indexes)b::int4[]) AS w(name, partition)
JOIN log_topics t ON t.name = w.name
JOIN log_partitions p ON p.topic_id = t.id AND p.partition = w.partition
""".encode()  # noqa: S608 - the statement is made of constants only


class PostgresReader:
    """Reads the partitions of one namespace, on a connection that is passed to each call."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace

    async def chunks(
        self, connection: Connection, offsets: Mapping[Partition, int], bytes_max: int
    ) -> list[tuple[Chunk, int]]:
        """Return a chunk of each existing partition, with the partition's end offset.

        A chunk has about `bytes_max` bytes, at least one record, and at most RECORDS_MAX records.
        At the end of a partition, the chunk is empty.
        """
        names, indexes = self._columns(offsets)
        cursor = connection.cursor(binary=True)
        await cursor.execute(_READ, [names, indexes, list(offsets.values()), bytes_max])
        requested = list(offsets.items())
        found = []
        for n, group in groupby(await cursor.fetchall(), key=itemgetter(0)):
            partition, offset = requested[n - 1]
            rows = list(group)
            found.append((_chunk(partition, offset, rows), rows[0][2]))
        return found

    async def bounds(
        self, connection: Connection, partitions: Collection[Partition]
    ) -> dict[Partition, Bounds]:
        """Return the first and the next offset of each partition that exists."""
        cursor = await connection.execute(_BOUNDS, [*self._columns(partitions)])
        return {
            self._partition(name, index): Bounds(start, end)
            for name, index, start, end in await cursor.fetchall()
        }

    async def published(self, connection: Connection, topics: Collection[str]) -> dict[str, int]:
        """Return how many records were ever appended to each topic that exists."""
        names = [self._namespace + topic for topic in topics]
        cursor = await connection.execute(_PUBLISHED, [names])
        return {
            name.removeprefix(self._namespace): count for name, count in await cursor.fetchall()
        }

    async def offsets_at(
        self, connection: Connection, partitions: Collection[Partition], timestamp_ms: int
    ) -> dict[Partition, int]:
        """Return the first offset at or after that time, for each existing partition.

        If a partition has no such record, the result has the partition's end.
        """
        names, indexes = self._columns(partitions)
        cursor = await connection.execute(
            _OFFSETS_AT, {"ms": timestamp_ms, "names": names, "indexes": indexes}
        )
        return {
            self._partition(name, index): offset for name, index, offset in await cursor.fetchall()
        }

    def _columns(self, partitions: Collection[Partition]) -> tuple[list[str], list[int]]:
        names = [self._namespace + partition.topic for partition in partitions]
        return names, [partition.index for partition in partitions]

    def _partition(self, name: str, index: int) -> Partition:
        return Partition(name.removeprefix(self._namespace), index)


def _chunk(partition: Partition, offset: int, rows: Sequence[tuple[Any, ...]]) -> Chunk:
    """Return the chunk with the records in `rows`, which the query _READ has returned.

    If there is a single row without a record, the chunk is empty.
    """
    _, start, end, *_ = rows[0]
    if not start <= offset <= end:
        return Chunk(partition, offset, start, (), 0, gap=True, log_end=end)
    if rows[0][3] is None:
        return Chunk(partition, offset, offset, (), 0)
    records = []
    size = 0
    for _, _, _, at, timestamp_ms, key, value, headers in rows:
        records.append(Record(at, timestamp_ms, key, value, unpacked(headers)))
        size += len(key or b"") + len(value or b"") + len(headers)
    return Chunk(partition, offset, records[-1].offset + 1, records, size)
