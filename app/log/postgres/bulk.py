"""Reads many records of the embedded log: by a blocking call, on a separate connection."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import psycopg

from app.domain.errors import LogUnavailableError
from app.log.postgres.codec import unpacked

CONNECT_TIMEOUT_S: Final = 10
# The number of records that are in memory at the same time. Bodies may be large.
SLICE: Final = 500

_ROWS: Final = b"""
SELECT r."offset", r.timestamp_ms, r.key, r.value, r.headers
FROM log_topics t
JOIN log_records r ON r.topic_id = t.id
WHERE t.name = %b AND r.partition = %b AND r."offset" >= %b AND r."offset" < %b
ORDER BY r."offset" LIMIT %b
"""


class BulkRow(NamedTuple):
    """One record."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[bytes, bytes]]


def topic_rows(
    url: str, topic: str, partition: int, *, span: tuple[int, int]
) -> Iterator[Sequence[BulkRow]]:
    """Yield the records of these offsets (the end is excluded) in order and in slices.

    `topic` includes the namespace. `url` is in psycopg's form.

    Raises:
        LogUnavailableError: The database cannot be read.
    """
    start, end = span
    try:
        with psycopg.connect(
            url, connect_timeout=CONNECT_TIMEOUT_S, application_name="angelia-spark"
        ) as connection:
            cursor = connection.cursor(binary=True)
            while start < end:
                rows = cursor.execute(_ROWS, [topic, partition, start, end, SLICE]).fetchall()
                if not rows:
                    return
                yield [BulkRow._make((*row, unpacked(headers))) for *row, headers in rows]
                start = rows[-1][0] + 1
    except psycopg.Error as exc:
        reason = next(iter(str(exc).splitlines()), type(exc).__name__)
        raise LogUnavailableError(f"The log failed: {reason}") from exc
