"""Reads undelivered messages for Spark, in ranges of ids, so that tasks share the work.

The columns of the CSV are COLUMNS. The ranges are determined when a job begins, and are only of the
ids of the requested time. So a task that runs again reads the same rows.
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
# The length to which reasons are cut, because a reason quotes what a subscriber sent.
REASON_LENGTH_MAX: Final = 2_000
# The maximum size of bodies that are read. Larger bodies are left out (NULL), but their size is
# given.
BODY_SIZE_MAX: Final = 64 * 1024
# The number of ids in a range.
RANGE_ROWS: Final = 100_000
# The maximum number of ranges. If there are more ids, the ranges are larger.
RANGES_MAX: Final = 512

# Selects the first and the last id of the discards of a time. `+ 0` prevents PostgreSQL from
# reading the index of the ids, in which it would read all ids before that time.
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

    Empty if there are none. Ranges may contain ids of other discards.

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
    """Return the ids between the two that the query `ids` selects, as ranges.

    Raises:
        StorageUnavailableError: The database cannot be reached.
    """
    with connected(url) as connection:
        row = connection.execute(ids).fetchone()
    first, last = row or (None, None)
    return [] if first is None else ranges(first, last + 1)


def ranges(first: int, end: int) -> Sequence[tuple[int, int]]:
    """Divide the ids from `first` to before `end` into ranges of RANGE_ROWS ids.

    If there would be more than RANGES_MAX ranges, they are larger.
    """
    size = max(RANGE_ROWS, -(-(end - first) // RANGES_MAX))
    return [(start, min(start + size, end)) for start in range(first, end, size)]


@contextmanager
def undelivered_csv(url: str, ids: tuple[int, int], scope: JobScope) -> Iterator[io.BufferedReader]:
    """Yield the discards of `scope` in that range of ids, as CSV.

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
