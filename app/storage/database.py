"""The database: connections, transactions, and a translation of its errors to Angelia's."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from typing import Final, TypeVar

import psycopg
from sqlalchemy import text
from sqlalchemy.exc import (
    DataError,
    DBAPIError,
    InterfaceError,
    OperationalError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import (
    AsyncConnection,
    AsyncEngine,
    AsyncSession,
    async_sessionmaker,
)

from app.domain.errors import StorageUnavailableError, ValidationFailedError
from app.postgres.connecting import READ_ONLY
from app.postgres.urls import DatabaseUrl
from app.storage.engines import CONNECT_TIMEOUT, reading, transacting
from app.storage.migrate import head
from app.storage.sealing import VAULT
from app.vault import Vault

STATEMENT_TIMEOUT: Final = timedelta(seconds=5)

Answer = TypeVar("Answer")
# The connection that `Database.read` passes to its function.
Reading = AsyncConnection
# The session that `Database.transaction` yields.
Session = AsyncSession


_TAKES_NO_CHANGES: Final = "The database takes no changes: it is read-only, or a standby"


class Database:
    """A pool of connections to one database. Create it with `open_database`."""

    def __init__(self, engine: AsyncEngine, reads: AsyncEngine, *, vault: Vault) -> None:
        self._reads = reads
        self._sessions = async_sessionmaker(
            engine, expire_on_commit=False, autoflush=False, info={VAULT: vault}
        )

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncSession]:
        """Open a session for one transaction, which is committed at the end of the block.

        After an error, the transaction is rolled back.

        Raises:
            StorageUnavailableError: The database cannot be reached, or did not respond in time.
                Then nothing was changed, unless only the response to the commit was lost.
        """
        with translated(), cancellable():
            async with self._sessions.begin() as session:
                yield session

    async def read(self, ask: Callable[[Reading], Awaitable[Answer]]) -> Answer:
        """Return the result of `ask`. `ask` must change nothing, because it may be called twice.

        Each statement needs one round trip: there is no transaction, and the connection is not
        tested before its use. If the connection is dead, `ask` is called again with another
        connection.

        Raises:
            StorageUnavailableError: The database cannot be reached.
        """
        started = time.monotonic()
        with translated():
            try:
                return await self._read(ask)
            except DBAPIError as exc:
                # Read again only if the error came immediately, because the connection was dead. Do
                # not read again if the server hangs.
                soon = time.monotonic() - started < CONNECT_TIMEOUT.total_seconds()
                if not (exc.connection_invalidated and soon):
                    raise
            return await self._read(ask)

    async def _read(self, ask: Callable[[Reading], Awaitable[Answer]]) -> Answer:
        with cancellable():
            async with self._reads.connect() as connection:
                return await ask(connection)

    async def ping(self) -> None:
        """Check that the database responds and accepts changes.

        Raises:
            StorageUnavailableError: The database does not respond, or accepts no changes.
        """
        async with self.transaction() as session:
            if await session.scalar(text(READ_ONLY)) == "on":
                raise StorageUnavailableError(_TAKES_NO_CHANGES)

    async def through_pooler(self) -> bool:
        """Return whether there is a connection pooler between this process and the database.

        Raises:
            StorageUnavailableError: The database cannot be reached.
        """
        async with self.transaction() as session:
            raw = await (await session.connection()).get_raw_connection()
            driver = raw.driver_connection
            pid = driver.info.backend_pid if driver is not None else 0
            return bool(await session.scalar(text("SELECT pg_backend_pid()")) != pid)

    async def migrated(self) -> bool:
        """Return whether the database has the tables of this version, or of a newer version.

        Newer tables are accepted, because processes of a newer version may run at the same time, or
        an operator may have returned to this version.

        Raises:
            StorageUnavailableError: The database cannot be reached.
        """
        async with self.transaction() as session:
            if not await session.scalar(text("SELECT to_regclass('alembic_version') IS NOT NULL")):
                return False
            revision = await session.scalar(text("SELECT version_num FROM alembic_version"))
            return bool(revision is not None and revision >= head())


@asynccontextmanager
async def open_database(
    url: DatabaseUrl,
    *,
    vault: Vault | None = None,
    pool_size: int = 10,
    statement_timeout: timedelta = STATEMENT_TIMEOUT,
) -> AsyncIterator[Database]:
    """Open a database with at most `pool_size` connections, which are opened when they are needed.

    `vault` encrypts and decrypts secrets; without one, no secret can be stored or read.

    Waiting for a connection ends after CONNECT_TIMEOUT, a statement after `statement_timeout`, and
    a transaction after TRANSACTION_TIMEOUT, even if the server does not respond.
    """
    engine = transacting(url, pool_size=pool_size, statement_timeout=statement_timeout)
    reads = reading(url, statement_timeout=statement_timeout)
    try:
        yield Database(engine, reads, vault=vault or Vault())
    finally:
        await engine.dispose()
        await reads.dispose()


@contextmanager
def translated() -> Iterator[None]:
    """Translate errors that say that the database is down, slow, busy or too old.

    Raises:
        StorageUnavailableError: The database has one of these problems.
        ValidationFailedError: A text has a zero character, which PostgreSQL cannot store or search.
    """
    try:
        yield
    except PoolTimeoutError as exc:
        raise StorageUnavailableError("No free database connection in time") from exc
    except (OperationalError, InterfaceError) as exc:
        raise StorageUnavailableError(f"The database failed: {_reason(exc)}") from exc
    except DataError as exc:
        if not _has_zero(exc):
            raise
        raise ValidationFailedError.of("text", "must be without zero characters") from exc
    except DBAPIError as exc:
        if not (problem := _problem(exc)):
            raise
        raise StorageUnavailableError(problem) from exc


@contextmanager
def cancellable() -> Iterator[None]:
    """Raise CancelledError in place of any error in the block, if the task was cancelled there.

    SQLAlchemy rolls back after a cancellation. If the rollback fails, SQLAlchemy raises the error
    of the rollback, and the cancellation is lost. A task that retries after database errors would
    then never end.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    try:
        yield
    except Exception as exc:
        if task and task.cancelling() > before:
            raise asyncio.CancelledError from exc
        raise


def _problem(exc: DBAPIError) -> str:
    """Return what is wrong with the database; empty if the statement is wrong, not the database."""
    match exc.orig:
        case psycopg.errors.ReadOnlySqlTransaction():
            return _TAKES_NO_CHANGES
        case psycopg.errors.UndefinedTable() | psycopg.errors.UndefinedColumn():
            return "The database has not this version's tables: migrate it"
        case psycopg.errors.InsufficientPrivilege():
            return f"The database does not let its user do that: {_reason(exc)}"
        case _:
            gone = exc.connection_invalidated
            return f"The database went away: {_reason(exc)}" if gone else ""


def _has_zero(exc: DataError) -> bool:
    """Return whether the driver or the server has reported a zero character in a text."""
    in_json = isinstance(exc.orig, psycopg.errors.UntranslatableCharacter)
    return in_json or "NUL (0x00)" in str(exc.orig)


def _reason(exc: DBAPIError) -> str:
    """Return only the first line of the error. Its other lines may quote statements and values."""
    return next(iter(str(exc.orig).splitlines()), type(exc.orig).__name__)
