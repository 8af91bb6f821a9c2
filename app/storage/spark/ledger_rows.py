"""Reads the input of ledgers for Spark's jobs and tasks, by calls that block.

URLs are in psycopg's form (`app.postgres.urls.libpq_url`).
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from psycopg import sql

from app.domain.errors import JobNotFoundError
from app.domain.insight.ledger import LedgerRequest
from app.storage.json_values import from_json
from app.storage.spark.copying import connected

POSITIONS_SLICE: Final = 10_000

_REQUESTS: Final = sql.SQL("""
SELECT subscription_id, topic, request FROM ledger_requests WHERE job_id = {job_id}
ORDER BY topic, subscription_id
""")
_DISCARDED: Final = sql.SQL("""
SELECT wanted.subscription_id, wanted.partition, found.*
FROM unnest({owners}::text[], {partitions}::int[], {starts}::bigint[], {ends}::bigint[])
  AS wanted (subscription_id, partition, start, until)
CROSS JOIN LATERAL (
  SELECT DISTINCT ON (u."offset") u."offset", left(u.reason, {reason_max}) AS reason, u.status
  FROM undelivered u
  WHERE u.subscription_id = wanted.subscription_id AND u.partition = wanted.partition
    AND u."offset" >= wanted.start AND u."offset" < wanted.until
  ORDER BY u."offset", u.id DESC
) AS found
""")
REASON_LENGTH_MAX: Final = 2_000


class RequestedEntry(NamedTuple):
    """A ledger entry that a job must make."""

    subscription_id: str
    topic: str
    request: LedgerRequest


class OwnSpan(NamedTuple):
    """A range of offsets in one partition, which belongs to one subscription."""

    subscription_id: str
    partition: int
    start: int
    end: int


def requested_entries(url: str, job_id: str) -> Sequence[RequestedEntry]:
    """Return the entries that the job must make. Entries of the same topic follow each other.

    Raises:
        JobNotFoundError: The job does not exist.
    """
    with connected(url) as connection:
        rows = connection.execute(_REQUESTS.format(job_id=job_id)).fetchall()
    if not rows:
        raise JobNotFoundError(f"What job {job_id} is to make an entry of is not there any more")
    return [
        RequestedEntry(owner, topic, LedgerRequest(**from_json(LedgerRequest, request)))
        for owner, topic, request in rows
    ]


def discarded_positions(url: str, spans: Sequence[OwnSpan]) -> Iterator[Sequence[Any]]:
    """Yield the discards in these ranges, in slices of rows.

    A row is (subscription id, partition, offset, reason, status). Each position comes once. If a
    message was discarded twice at a position, the row is about the last discard.
    """
    owners, partitions, starts, ends = (list(each) for each in zip(*spans, strict=True))
    query = _DISCARDED.format(
        reason_max=REASON_LENGTH_MAX,
        owners=owners,
        partitions=partitions,
        starts=starts,
        ends=ends,
    )
    with connected(url) as connection, connection.cursor(name="places", binary=True) as cursor:
        cursor.execute(query)
        while rows := cursor.fetchmany(POSITIONS_SLICE):
            yield rows
