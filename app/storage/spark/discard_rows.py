"""Reads undelivered messages for Spark, in ranges of ids, so that tasks share the work.

The columns of the CSV are COLUMNS. The ranges are determined when a job begins, and reach from the
first to the last id of the requested time. So a task that runs again reads the same rows.
"""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from psycopg import sql

from app.domain.job import JobScope
from app.storage.spark.copying import connected, copied_out

COLUMNS: Final = (
    "subscription_id",
    "topic",
    "subscription",
    "message_id",
    "discarded_us",
    "reason",
    "status",
    "attempts",
    "size",
    "body_hex",
)
# The length to which the reasons of discards are cut, because a reason may quote a long response.
REASON_LENGTH_MAX: Final = 2_000
# The maximum size of the bodies that are read. A larger body is left out (NULL), but its size is
# read.
BODY_SIZE_MAX: Final = 64 * 1024
# The number of row ids in a range that one task reads.
RANGE_ROWS: Final = 100_000
# The maximum number of ranges. If there are more ids, the ranges are larger.
RANGES_MAX: Final = 512

# Selects the first and the last row id of the discards of a time. `id + 0` prevents PostgreSQL from
# using the index of the ids, because it would then read all ids before that time.
_IDS: Final = sql.SQL("""
SELECT min(id + 0), max(id + 0) FROM undelivered
WHERE discarded_at >= {start} AND discarded_at < {until}
  AND ({topic}::text IS NULL OR topic = {topic})
  AND ({subscription}::text IS NULL OR subscription = {subscription})
""")
_ROWS: Final = sql.SQL("""
SELECT subscription_id, topic, subscription, message_id,
  (extract(epoch FROM discarded_at) * 1000000)::bigint, left(reason, {reason_max}), status,
  attempts, octet_length(body),
  CASE WHEN octet_length(body) <= {body_max} THEN encode(body, 'hex') END
FROM undelivered
WHERE id >= {first} AND id < {end} AND discarded_at >= {start} AND discarded_at < {until}
  AND ({topic}::text IS NULL OR topic = {topic})
  AND ({subscription}::text IS NULL OR subscription = {subscription})
""")


def undelivered_ranges(url: str, scope: JobScope) -> Sequence[tuple[int, int]]:
    """Return the ids of the discards of `scope` as ranges (first, end), the end excluded.

    The result is empty if there are no discards. The ranges may also contain ids of discards
    outside of `scope`.

    Raises:
        StorageUnavailableError: The database cannot be reached.
    """
    return ranges_of(url, ids_of(scope))


def ids_of(scope: JobScope) -> sql.Composed:
    """Return the query for the first and the last id of the discards of `scope`."""
    return _IDS.format(
        start=scope.start, until=scope.end, topic=scope.topic, subscription=scope.subscription
    )


def ranges_of(url: str, ids: sql.Composed) -> Sequence[tuple[int, int]]:
    """Divide the ids from the first to the last id that the query `ids` selects into ranges.

    Raises:
        StorageUnavailableError: The database cannot be reached.
    """
    with connected(url) as connection:
        row = connection.execute(ids).fetchone()
    first, last = row or (None, None)
    return [] if first is None else ranges(first, last + 1)


def ranges(first: int, end: int) -> Sequence[tuple[int, int]]:
    """Divide the ids from `first` to before `end` into ranges of RANGE_ROWS ids.

    If there would be more than RANGES_MAX ranges, the ranges are made larger.
    """
    size = max(RANGE_ROWS, -(-(end - first) // RANGES_MAX))
    return [(start, min(start + size, end)) for start in range(first, end, size)]


@contextmanager
def undelivered_csv(url: str, ids: tuple[int, int], scope: JobScope) -> Iterator[io.BufferedReader]:
    """Yield the discards of `scope` with ids in the range `ids`, as CSV.

    Raises:
        StorageUnavailableError: The database cannot be reached.
    """
    first, end = ids
    query = _ROWS.format(
        reason_max=REASON_LENGTH_MAX,
        body_max=BODY_SIZE_MAX,
        first=first,
        end=end,
        start=scope.start,
        until=scope.end,
        topic=scope.topic,
        subscription=scope.subscription,
    )
    with copied_out(url, query) as rows:
        yield rows
