"""Reads from the traces when messages were attempted and finished, for Spark tasks.

A task may run on any machine that can reach the database, and imports no more than needed.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from psycopg import sql

from app.domain.job import JobScope
from app.domain.trace import TraceSource
from app.storage.spark.copying import connected
from app.tracing.packs import read_pack

When = tuple[datetime, datetime]

# The number of trace entries that are in memory at the same time.
ROWS_SLICE: Final = 10_000
# The number of packed traces that are read at a time. A packed trace usually has 500 entries.
_PACKS_SLICE: Final = 20
# The maximum number of periods into which the work is divided. A task reads all traces of its
# period, and most of these traces belong to other subscriptions.
SLICES_MAX: Final = 64
# The shortest period into which the work is divided.
_SLICE_MIN: Final = timedelta(minutes=5)
_STATUSES: Final = frozenset({"SUCCESS", "FAILED", "DISCARDED"})
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_PACKS: Final = sql.SQL("""
SELECT body FROM trace_packs WHERE at >= {first} AND first_at < {end} AND sources <> '{{}}'
  AND ({topic}::text IS NULL OR sources && ARRAY(
    SELECT id FROM trace_sources WHERE subscription_id <> '' AND topic = {topic}
      AND ({subscription}::text IS NULL OR subscription = {subscription})))
""")
_ROWS: Final = sql.SQL("""
SELECT s.topic, s.subscription_id, s.subscription, t.partition, t."offset",
  (extract(epoch FROM t.at) * 1000000)::bigint, t.status, t.attempt,
  (t.queued * 1000)::bigint, (t.waited * 1000)::bigint, (t.connect * 1000)::bigint,
  (t.took * 1000)::bigint, t.retransmission <> ''
FROM traces t JOIN trace_sources s ON s.id = t.source
WHERE t.at >= {first} AND t.at < {end} AND t.status = ANY({statuses}) AND t."offset" >= 0
  AND s.subscription_id <> '' AND ({topic}::text IS NULL OR s.topic = {topic})
  AND ({subscription}::text IS NULL OR s.subscription = {subscription})
""")
_LOST: Final = sql.SQL(
    "SELECT coalesce(sum(entries), 0) FROM trace_losses WHERE at >= {first} AND at < {end}"
)

_FIRST: Final = sql.SQL("""
WITH own AS (
  SELECT id FROM trace_sources WHERE subscription_id <> ''
    AND ({topic}::text IS NULL OR topic = {topic})
    AND ({subscription}::text IS NULL OR subscription = {subscription}))
SELECT least(
  (SELECT min(t.at) FROM traces t JOIN own ON own.id = t.source),
  (SELECT min(first_at) FROM trace_packs WHERE sources && ARRAY(SELECT id FROM own)))
""")


def slices(first: datetime, end: datetime) -> Sequence[When]:
    """Divide the time from `first` to before `end` into periods of 5 minutes.

    If there would be more than SLICES_MAX periods, the periods are made longer.
    """
    # Round the length of a period up. Otherwise a short remainder would make one period too many.
    length = max(_SLICE_MIN, -((first - end) // SLICES_MAX))
    found = []
    while first < end:
        found.append((first, min(first + length, end)))
        first += length
    return found


def traced_rows(url: str, scope: JobScope, when: When) -> Iterator[Sequence[Sequence[Any]]]:
    """Yield the trace entries of `scope` about attempts and finished messages in the time `when`.

    The result comes in slices of rows with the columns `spark.schemas.TRACED`. The times of `scope`
    are ignored.

    Raises:
        StorageUnavailableError: The database cannot be reached.
    """
    requested = {
        "first": when[0],
        "end": when[1],
        "topic": scope.topic,
        "subscription": scope.subscription,
    }
    yield from _slices(url, _ROWS.format(statuses=list(_STATUSES), **requested), ROWS_SLICE)
    for packs in _slices(url, _PACKS.format(**requested), _PACKS_SLICE):
        rows = [row for (body,) in packs for row in _rows_in(body, scope, when)]
        if rows:
            yield rows


def lost_entries(url: str, when: When) -> int:
    """Return how many trace entries of the time `when` are missing.

    Raises:
        StorageUnavailableError: The database cannot be reached.
    """
    with connected(url) as connection:
        query = _LOST.format(first=when[0], end=when[1])
        (lost,) = connection.execute(query).fetchone() or (0,)
    return int(lost)


def first_traced(url: str, scope: JobScope) -> datetime | None:
    """Return the time of the oldest stored trace entry of the subscriptions of `scope`.

    Raises:
        StorageUnavailableError: The database cannot be reached.
    """
    with connected(url) as connection:
        query = _FIRST.format(topic=scope.topic, subscription=scope.subscription)
        row: tuple[datetime | None] = connection.execute(query).fetchone() or (None,)
    return row[0]


def _rows_in(body: bytes, scope: JobScope, when: When) -> Sequence[Sequence[Any]]:
    pack = read_pack(body)
    if pack is None:
        return []
    first, end = ((moment - _EPOCH) // timedelta(microseconds=1) for moment in when)
    own = {
        number: (source.topic, source.subscription_id, source.subscription)
        for number, source in pack.sources.items()
        if _is_wanted(source, scope)
    }
    return [
        # Access the fields of a row by number (see `app.tracing.packs.TraceRow`), because access by
        # name would take twice as long.
        (*own[row[0]], row[4], row[5], row[1], row[2], row[6], *row[9:13], row[15] != "")
        for row in pack.rows
        if row[0] in own and first <= row[1] < end and row[2] in _STATUSES and row[5] >= 0
    ]


def _is_wanted(source: TraceSource, scope: JobScope) -> bool:
    return (
        not source.is_publication
        and scope.topic in {None, source.topic}
        and scope.subscription in {None, source.subscription}
    )


def _slices(url: str, query: sql.Composed, size: int) -> Iterator[Sequence[Any]]:
    with connected(url) as connection, connection.cursor(name="traced", binary=True) as cursor:
        cursor.execute(query)
        while rows := cursor.fetchmany(size):
            yield rows
