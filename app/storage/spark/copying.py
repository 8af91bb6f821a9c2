"""Copies many rows from and to the database by COPY, for Spark tasks, without an event loop.

A task may run on any machine that can reach the database, and may run twice. The database's URL is
passed in psycopg's form (`app.postgres.urls.libpq_url`), because converting it here would import
more than the task needs.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from psycopg import Connection, Copy, sql

from app.domain.errors import StorageUnavailableError

CONNECT_TIMEOUT_S: Final = 10
# The time limit of a statement. A task reads or writes only a limited range. So a statement that
# takes longer than this hangs.
STATEMENT_TIMEOUT_MS: Final = 600_000
_BUFFER_SIZE: Final = 1024 * 1024


@contextmanager
def connected(url: str) -> Iterator[Connection[tuple[Any, ...]]]:
    """Open a connection with one transaction, which is committed at the end of the block.

    Raises:
        StorageUnavailableError: The database cannot be reached.
    """
    try:
        with psycopg.connect(
            url,
            connect_timeout=CONNECT_TIMEOUT_S,
            application_name="angelia-spark",
            options=f"-c statement_timeout={STATEMENT_TIMEOUT_MS} -c timezone=UTC",
            keepalives_idle=5,
            keepalives_interval=2,
            keepalives_count=3,
        ) as connection:
            yield connection
    except (psycopg.OperationalError, psycopg.InterfaceError) as exc:
        reason = next(iter(str(exc).splitlines()), type(exc).__name__)
        raise StorageUnavailableError(f"The database failed: {reason}") from exc


@contextmanager
def copied_out(url: str, query: sql.Composable) -> Iterator[io.BufferedReader]:
    """Yield the rows of `query` as a CSV file.

    In the CSV file, an empty value without quotation marks means NULL.
    """
    statement = sql.SQL("COPY ({}) TO STDOUT (FORMAT csv)").format(query)
    with connected(url) as connection, connection.cursor().copy(statement) as copy:
        # Read large blocks through a buffer, because a COPY returns its rows one by one.
        yield io.BufferedReader(_CopyReader(copy), _BUFFER_SIZE)


class _CopyReader(io.RawIOBase):
    """Reads the result of a COPY like a file."""

    def __init__(self, copy: Copy) -> None:
        super().__init__()
        self._copy = copy
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - anything with a writable buffer
        if not self._left:
            self._left = memoryview(self._copy.read())
        count = min(len(buffer), len(self._left))
        buffer[:count] = self._left[:count]
        self._left = self._left[count:]
        return count
