"""Reads the messages that retransmissions have sent, for Spark tasks.

A task may run on any machine that can reach the database, and imports no more than needed.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from psycopg import sql

from app.storage.spark.copying import connected

POSITIONS_SLICE: Final = 10_000

_OTHERS: Final = sql.SQL("""
SELECT state IN ('DONE', 'SENDING'), array_agg(id) FROM retransmissions
WHERE subscription_id = {subscription_id} AND id <> {but} AND matched > 0 GROUP BY 1
""")
_SENT: Final = sql.SQL("""
SELECT s.source_partition, s.source_offset, s.partition, s."offset"
FROM retransmissions r JOIN retransmission_sent s ON s.job_id = r.id
WHERE r.id = {id} AND r.state <> 'SENDING'
UNION ALL
SELECT c.partition, generate_series(c.start, c."end" - 1), NULL, NULL
FROM retransmissions r JOIN retransmission_runs c ON c.job_id = r.id AND c.attempt = r.attempt
WHERE r.id = {id} AND r.state = 'SENDING'
""")


class Others(NamedTuple):
    """The ids of other retransmissions, in two groups.

    The messages of `settled` retransmissions are all finished, or will be. Of the messages that
    `stopped` retransmissions have appended, some may be finished, and some may have been dropped.
    """

    settled: Sequence[str] = ()
    stopped: Sequence[str] = ()


def other_retransmissions(url: str, subscription_id: str, *, but: str) -> Others:
    """Return the subscription's other retransmissions that have chosen messages."""
    query = _OTHERS.format(subscription_id=subscription_id, but=but)
    with connected(url) as connection:
        found = dict(connection.execute(query).fetchall())
    return Others(settled=found.get(True, ()), stopped=found.get(False, ()))


def resent_positions(url: str, retransmission_id: str) -> Iterator[Sequence[Sequence[Any]]]:
    """Yield the messages that a retransmission has sent or is sending, in slices of rows.

    Each row is (partition, offset, new partition, new offset). The new position is None if it is
    not known yet.
    """
    query = _SENT.format(id=retransmission_id)
    with connected(url) as connection, connection.cursor(name="resent", binary=True) as cursor:
        cursor.execute(query)
        while rows := cursor.fetchmany(POSITIONS_SLICE):
            yield rows
