"""Reads the input of a ledger for Spark's jobs and tasks, by calls that block.

URLs are in psycopg's form (`app.postgres.urls.libpq_url`).
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from psycopg import sql

from app.domain.errors import JobNotFoundError
from app.domain.insight.ledger import LedgerRequest
from app.storage.json_values import from_json
from app.storage.spark.copying import connected

PLACES_SLICE: Final = 10_000

_ASKED: Final = sql.SQL("""
SELECT subscription_id, topic, request FROM ledger_requests WHERE job_id = {job_id}
""")
_DISCARDED: Final = sql.SQL("""
SELECT DISTINCT ON ("offset") partition, "offset", left(reason, {reason_max}), status
FROM undelivered
WHERE subscription_id = {subscription_id} AND partition = {partition}
  AND "offset" >= {start} AND "offset" < {end}
ORDER BY "offset", id DESC
""")
REASON_LENGTH_MAX: Final = 2_000


def requested_ledger(url: str, job_id: str) -> tuple[str, str, LedgerRequest]:
    """Return subscription, topic and request of the job's ledger.

    Raises:
        JobNotFoundError: The job does not exist.
    """
    with connected(url) as connection:
        row = connection.execute(_ASKED.format(job_id=job_id)).fetchone()
    if row is None:
        raise JobNotFoundError(f"What job {job_id} is to make an entry of is not there any more")
    subscription_id, topic, request = row
    return subscription_id, topic, LedgerRequest(**from_json(LedgerRequest, request))


def discarded_places(
    url: str, subscription_id: str, partition: int, *, span: tuple[int, int]
) -> Iterator[Sequence[Any]]:
    """Yield (partition, offset, reason, status) of discards, each position once.

    If a message was discarded twice at a position, the last discard counts.
    """
    start, end = span
    query = _DISCARDED.format(
        reason_max=REASON_LENGTH_MAX,
        subscription_id=subscription_id,
        partition=partition,
        start=start,
        end=end,
    )
    with connected(url) as connection, connection.cursor(name="places", binary=True) as cursor:
        cursor.execute(query)
        while rows := cursor.fetchmany(PLACES_SLICE):
            yield rows
