"""Reads many records of the embedded log, by blocking calls, on a connection of its own."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import Connection

from app.domain.errors import LogUnavailableError
from app.domain.replay.retransmission import OffsetSpan
from app.log.postgres.codec import unpacked

CONNECT_TIMEOUT_S: Final = 10
# The number of records that are read into memory at once. Bodies may be large.
SLICE: Final = 500
# The number of records that are read into memory at once, if only their headers are read.
SMALL_SLICE: Final = 10_000

_ROWS: Final = b"""
SELECT r."offset", r.timestamp_ms, r.key, r.value, r.headers
FROM log_topics t
JOIN log_records r ON r.topic_id = t.id
WHERE t.name = %b AND r.partition = %b AND r."offset" >= %b AND r."offset" < %b
ORDER BY r."offset" LIMIT %b
"""

# The query returns the headers of a record only if they contain the bytes of the requested name. So
# most headers are not sent.
_HEADERS: Final = b"""
SELECT r."offset", CASE WHEN position(%b::bytea IN r.headers) > 0 THEN r.headers END
FROM log_topics t
JOIN log_records r ON r.topic_id = t.id
WHERE t.name = %b AND r.partition = %b AND r."offset" >= %b AND r."offset" < %b
ORDER BY r."offset" LIMIT %b
"""


class BulkRow(NamedTuple):
    """One record of the log."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[bytes, bytes]]


def topic_rows(
    url: str, topic: str, partition: int, *, span: tuple[int, int]
) -> Iterator[Sequence[BulkRow]]:
    """Yield the records of a partition in order, some at a time.

    `span` has the first offset, and the offset after the last one. `topic` includes the namespace.
    `url` is in psycopg's form.

    Raises:
        LogUnavailableError: The database cannot be read.
    """
    start, end = span
    with _connected(url) as connection:
        cursor = connection.cursor(binary=True)
        while start < end:
            rows = cursor.execute(_ROWS, [topic, partition, start, end, SLICE]).fetchall()
            if not rows:
                return
            yield [BulkRow._make((*row, unpacked(headers))) for *row, headers in rows]
            start = rows[-1][0] + 1


def header_rows(
    url: str, spans: Sequence[OffsetSpan], *, namespace: str, header: bytes
) -> Iterator[tuple[OffsetSpan, Sequence[tuple[int, bytes | None]]]]:
    """Yield the offsets of these ranges, some at a time, each with the value of one header.

    `header` is the name of the header. If a record has several headers with this name, the last one
    counts. The value is None if the record has no such header. `url` is in psycopg's form.

    Raises:
        LogUnavailableError: The database cannot be read.
    """
    with _connected(url) as connection:
        cursor = connection.cursor(binary=True)
        for span in spans:
            start, partition = span.start, [namespace + span.topic, span.partition]
            while start < span.end:
                limits = [start, span.end, SMALL_SLICE]
                rows = cursor.execute(_HEADERS, [header, *partition, *limits]).fetchall()
                if not rows:
                    break
                yield span, [(offset, _last(stored, header)) for offset, stored in rows]
                start = rows[-1][0] + 1


def _last(stored: bytes | None, header: bytes) -> bytes | None:
    found = [] if stored is None else [value for name, value in unpacked(stored) if name == header]
    return found[-1] if found else None


@contextmanager
def _connected(url: str) -> Iterator[Connection[Any]]:
    try:
        with psycopg.connect(
            url, connect_timeout=CONNECT_TIMEOUT_S, application_name="angelia-spark"
        ) as connection:
            yield connection
    except psycopg.Error as exc:
        reason = next(iter(str(exc).splitlines()), type(exc).__name__)
        raise LogUnavailableError(f"The log failed: {reason}") from exc
