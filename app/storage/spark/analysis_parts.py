"""Writes the results of a Spark job. Each Spark task writes the partition that it has computed.

A row belongs to one claim of a job and to one partition. If a task runs twice, the second run
replaces the rows of the first. Results of a replaced claim are never shown.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from psycopg import sql

from app.domain.job import Claim
from app.storage.latency_columns import LATENCY, LATENCY_FIGURES
from app.storage.spark.copying import connected

UNDELIVERED: Final = "analytics_undelivered"
FAILURES: Final = "analytics_failures"
# The table of the ranges of messages that a retransmission sends again.
RUNS: Final = "retransmission_runs"
# The table of the records that a retransmission sends and that only the archive has.
RECORDS: Final = "retransmission_records"
# The two tables of counts from which a ledger entry is made.
LEDGER_COUNTS: Final = "ledger_counts"
LEDGER_DISCARDS: Final = "ledger_discards"
# The table of a simulation's results by minute.
SIMULATED: Final = "simulated_minutes"
COLUMNS: Final = {
    UNDELIVERED: (
        "topic",
        "subscription",
        "reason",
        "status",
        "hour",
        "messages",
        "attempts",
        "volume",
    ),
    FAILURES: (
        "topic",
        "status",
        "error",
        "shape",
        "pattern",
        "messages",
        "subscriptions",
        "shapes",
        "first_at",
        "last_at",
        "example_id",
        "example_subscription",
        "example_reason",
        "fields",
    ),
    RUNS: ("partition", "start", "end", "messages", "size", "undelivered", "archived"),
    RECORDS: (
        "partition",
        "offset",
        "timestamp_ms",
        "size",
        "key",
        "value",
        "header_names",
        "header_values",
    ),
    LEDGER_COUNTS: (
        "subscription_id",
        "partition",
        "carried",
        "passed",
        "whose",
        "messages",
        "first",
    ),
    LEDGER_DISCARDS: ("subscription_id", "partition", "reason", "status", "messages"),
    LATENCY: (
        "topic",
        "subscription_id",
        "subscription",
        "messages",
        "delivered",
        "discarded",
        "unknown",
        "resent",
        "attempts",
        "within",
        *LATENCY_FIGURES,
    ),
    SIMULATED: (
        "minute",
        "read",
        "matched",
        "present",
        "added",
        "size",
        "peak",
        "backlog",
    ),
}
_KEY: Final = ("job_id", "attempt", "part", "row")

_DELETE: Final = sql.SQL(
    "DELETE FROM {table} WHERE job_id = {job_id} AND attempt = {attempt} AND part = {part}"
)
_COPY: Final = sql.SQL("COPY {table} ({columns}) FROM STDIN")
_COUNT: Final = sql.SQL(
    "SELECT count(*), coalesce(sum(messages), 0) FROM {table}"
    " WHERE job_id = {job_id} AND attempt = {attempt}"
)


def write_part(
    url: str, table: str, rows: Iterable[Sequence[Any]], *, claim: Claim, part: int
) -> None:
    """Store `rows` as one partition of the result. A partition that was stored before is replaced.

    The values of a row are in the order of COLUMNS.

    Raises:
        StorageUnavailableError: Nothing is stored.
    """
    name = sql.Identifier(table)
    columns = sql.SQL(", ").join(map(sql.Identifier, (*_KEY, *COLUMNS[table])))
    key = {"job_id": claim.job_id, "attempt": claim.attempt, "part": part}
    with connected(url) as connection, connection.cursor() as cursor:
        cursor.execute(_DELETE.format(table=name, **key))
        with cursor.copy(_COPY.format(table=name, columns=columns)) as copy:
            for number, row in enumerate(rows):
                copy.write_row((claim.job_id, claim.attempt, part, number, *row))


def counted(url: str, table: str, claim: Claim) -> tuple[int, int]:
    """Return the number of rows that were stored under `claim`, and the sum of their messages."""
    query = _COUNT.format(table=sql.Identifier(table), job_id=claim.job_id, attempt=claim.attempt)
    with connected(url) as connection:
        rows, messages = connection.execute(query).fetchone() or (0, 0)
    return int(rows), int(messages)
