"""Reads the messages to send again, for Spark tasks: discards, and positions of finished messages.

A task may run on any machine that can reach the database, and imports no more than needed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from psycopg import sql

from app.domain.job import Claim
from app.domain.replay.coverage import Stretch
from app.domain.replay.retransmission import RUN_MAX
from app.storage.spark.copying import connected
from app.storage.spark.discard_rows import ranges_of
from app.storage.texts import storable
from app.storage.traces.packs import positions_in

# The maximum number of undelivered messages with bodies that are in memory at the same time.
SLICE: Final = 500
# The maximum number of positions that are in memory at the same time.
POSITIONS_SLICE: Final = 10_000
# The number of packed traces that are read at a time. A packed trace usually has 20 KB.
PACKS_SLICE: Final = 100
_ENDS: Final = frozenset({"SUCCESS", "DISCARDED", "FILTERED"})

_DISCARDS: Final = sql.SQL("""
SELECT id, partition, "offset", (extract(epoch FROM discarded_at) * 1000)::bigint, message_id, key,
  body, headers
FROM undelivered
WHERE id >= {first} AND id < {end} AND subscription_id = {subscription_id}
  AND discarded_at >= {since} AND discarded_at < {until} AND redriven_at IS NULL
  AND NOT superseded
  AND (cardinality({statuses}::int[]) = 0 OR status = ANY({statuses}::int[]))
  AND (cardinality({reasons}::text[]) = 0 OR reason ILIKE ANY({reasons}::text[]))
ORDER BY id LIMIT {limit}
""")
# Selects the first and the last row id of a subscription's discards of a time. `id + 0` prevents
# PostgreSQL from using the index of the ids, because it would then read all ids before that time.
_IDS: Final = sql.SQL("""
SELECT min(id + 0), max(id + 0) FROM undelivered
WHERE subscription_id = {subscription_id} AND discarded_at >= {since} AND discarded_at < {until}
  AND redriven_at IS NULL
""")
_FINISHED: Final = sql.SQL("""
SELECT t.partition, t."offset" FROM traces t JOIN trace_sources s ON s.id = t.source
WHERE s.subscription_id = {subscription_id} AND t.at >= {first} AND t.at < {end}
  AND t.status = ANY({ends}) AND t."offset" >= 0
""")
_PACKS: Final = sql.SQL("""
SELECT body FROM trace_packs WHERE at >= {first} AND first_at < {end}
  AND sources && ARRAY(SELECT id FROM trace_sources WHERE subscription_id = {subscription_id})
""")
_DISCARDED: Final = sql.SQL("""
SELECT partition, "offset" FROM undelivered WHERE subscription_id = {subscription_id}
""")
_RUNS: Final = sql.SQL("""
SELECT start, "end" FROM retransmission_runs
WHERE job_id = {job_id} AND attempt = {attempt} AND partition = {partition} AND archived
  AND start > {first} AND start < {end} AND "end" > {start}
""")


@dataclass(frozen=True, slots=True, kw_only=True)
class Discards:
    """Selects discards of a subscription that were not sent again, by time, status and reason.

    `reason` is a text. A discard matches if its reason contains this text, in upper or lower case.
    """

    subscription_id: str
    since: datetime
    until: datetime
    statuses: tuple[int, ...] = ()
    reason: str | None = None


def discards(url: str, ids: tuple[int, int], wanted: Discards) -> Iterator[Sequence[Any]]:
    """Yield the discards that match `wanted` and have ids in the range `ids`, in slices of rows.

    A row is (id, partition, offset, milliseconds, message id, key, body, headers). The milliseconds
    are the time of the discard since the epoch. Headers are a list of pairs.
    """
    first, end = ids
    with connected(url) as connection:
        cursor = connection.cursor(binary=True)
        while first < end:
            query = _DISCARDS.format(
                first=first,
                end=end,
                limit=SLICE,
                subscription_id=wanted.subscription_id,
                since=wanted.since,
                until=wanted.until,
                statuses=list(wanted.statuses),
                reasons=[] if wanted.reason is None else [_part(wanted.reason)],
            )
            rows = cursor.execute(query).fetchall()
            if not rows:
                return
            yield rows
            first = rows[-1][0] + 1


def discard_ranges(url: str, wanted: Discards) -> Sequence[tuple[int, int]]:
    """Return the ids of the requested discards as ranges (first, end), the end excluded.

    The ranges may also contain ids of other discards.

    Raises:
        StorageUnavailableError: The database cannot be reached.
    """
    return ranges_of(url, discard_ids(wanted))


def discard_ids(wanted: Discards) -> sql.Composed:
    """Return the query for the first and the last id of the requested discards."""
    return _IDS.format(
        subscription_id=wanted.subscription_id, since=wanted.since, until=wanted.until
    )


def _part(text: str) -> str:
    """Return the LIKE pattern for texts that contain `text`."""
    for special in ("\\", "%", "_"):
        text = text.replace(special, f"\\{special}")
    return f"%{storable(text)}%"


def finished_positions(
    url: str, subscription_id: str, when: tuple[datetime, datetime] | None
) -> Iterator[Sequence[Any]]:
    """Yield the positions of messages that the traces call finished within the time `when`.

    If `when` is None, yield the positions of messages that were discarded at any time.
    """
    if when is None:
        yield from _slices(url, _DISCARDED.format(subscription_id=subscription_id), POSITIONS_SLICE)
        return
    requested = {"subscription_id": subscription_id, "first": when[0], "end": when[1]}
    yield from _slices(url, _FINISHED.format(ends=list(_ENDS), **requested), POSITIONS_SLICE)
    for packs in _slices(url, _PACKS.format(**requested), PACKS_SLICE):
        for (body,) in packs:
            # Skip a packed trace that has no entry of this subscription about a finished message in
            # the time `when`.
            if positions := positions_in(body, subscription_id, when=when, ends=_ENDS):
                yield positions


def _slices(url: str, query: sql.Composed, size: int) -> Iterator[Sequence[Any]]:
    with connected(url) as connection, connection.cursor(name="places", binary=True) as cursor:
        cursor.execute(query)
        while rows := cursor.fetchmany(size):
            yield rows


def chosen_positions(
    url: str, claim: Claim, stretches: Mapping[int, Stretch]
) -> frozenset[tuple[int, int]]:
    """Return the positions in these ranges that the job has chosen from the archive.

    A position is a partition and an offset. `stretches` has a range of offsets by partition.
    """
    found: set[tuple[int, int]] = set()
    with connected(url) as connection:
        for index, stretch in stretches.items():
            query = _RUNS.format(
                job_id=claim.job_id,
                attempt=claim.attempt,
                partition=index,
                # Each row has a range of at most RUN_MAX offsets. With this lower limit for the
                # start of the range, the database finds the first row by the index.
                first=stretch.start - RUN_MAX,
                start=stretch.start,
                end=stretch.end,
            )
            for start, end in connection.execute(query):
                found.update((index, offset) for offset in range(start, end))
    return frozenset(found)


def hours(first: datetime, end: datetime, *, at_most: int) -> Sequence[tuple[datetime, datetime]]:
    """Divide the time from `first` to before `end` into periods, mostly of an hour.

    If there would be more than `at_most` periods, the periods are made longer.
    """
    length = max(timedelta(hours=1), (end - first) / at_most)
    found = []
    while first < end:
        found.append((first, min(first + length, end)))
        first += length
    return found
