"""The database: its connections, its transactions, and one translation of its failures."""

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
# What `Database.read` gives to read on, and `Database.transaction` to hand to repositories.
Reading = AsyncConnection
Session = AsyncSession


_TAKES_NO_CHANGES: Final = "The database takes no changes: it is read-only, or a standby"


class Database:
    """A pool of connections to one database; get one from `open_database`."""

    def __init__(self, engine: AsyncEngine, reads: AsyncEngine, *, vault: Vault) -> None:
        self._reads = reads
        self._sessions = async_sessionmaker(
            engine, expire_on_commit=False, autoflush=False, info={VAULT: vault}
        )

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncSession]:
        """A session that is committed when the block ends, and rolled back when it raises.

        StorageUnavailableError: the database cannot be reached, or did not answer in time. Then
        nothing of it happened, unless it was the commit that was not answered.
        """
        with translated():
            async with self._sessions.begin() as session:
                yield session

    async def read(self, ask: Callable[[Reading], Awaitable[Answer]]) -> Answer:
        """What `ask` says, which changes nothing; it may be called twice.

        A statement is one turn to the server and back: no transaction is around them, and no ping
        before them. A connection that has died shows by failing, and `ask` is given another.
        StorageUnavailableError: as by `transaction`.
        """
        started = time.monotonic()
        with translated():
            try:
                return await self._read(ask)
            except DBAPIError as exc:
                # One that has died fails at once; a server that hangs is not asked again.
                soon = time.monotonic() - started < CONNECT_TIMEOUT.total_seconds()
                if not (exc.connection_invalidated and soon):
                    raise
            return await self._read(ask)

    async def _read(self, ask: Callable[[Reading], Awaitable[Answer]]) -> Answer:
        async with self._reads.connect() as connection:
            return await ask(connection)

    async def ping(self) -> None:
        """Return if the database answers and takes changes; else StorageUnavailableError."""
        async with self.transaction() as session:
            if await session.scalar(text(READ_ONLY)) == "on":
                raise StorageUnavailableError(_TAKES_NO_CHANGES)

    async def through_pooler(self) -> bool:
        """Whether a pooler is between it and us; StorageUnavailableError."""
        async with self.transaction() as session:
            raw = await (await session.connection()).get_raw_connection()
            driver = raw.driver_connection
            told = driver.info.backend_pid if driver is not None else 0
            return bool(await session.scalar(text("SELECT pg_backend_pid()")) != told)

    async def migrated(self) -> bool:
        """Whether its tables are those of this version; StorageUnavailableError."""
        async with self.transaction() as session:
            if not await session.scalar(text("SELECT to_regclass('alembic_version') IS NOT NULL")):
                return False
            revision = await session.scalar(text("SELECT version_num FROM alembic_version"))
            return bool(revision == head())


@asynccontextmanager
async def open_database(
    url: DatabaseUrl,
    *,
    vault: Vault | None = None,
    pool_size: int = 10,
    statement_timeout: timedelta = STATEMENT_TIMEOUT,
) -> AsyncIterator[Database]:
    """A database that connects when it is first used, at most `pool_size` times at once.

    Secrets in it are sealed and opened by `vault`; without one, none can be stored or read.

    Waiting for a connection ends after CONNECT_TIMEOUT, a statement after `statement_timeout`, and
    a transaction after TRANSACTION_TIMEOUT, however the server behaves.
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
    """Raise what says that the database is down, slow, busy or old as StorageUnavailableError.

    ValidationFailedError for a text with a zero character in it: PostgreSQL stores and seeks none.
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


def _problem(exc: DBAPIError) -> str:
    """What is wrong with the database; nothing where it is the statement."""
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
    """As the driver says it of a text, and the server of JSON."""
    in_json = isinstance(exc.orig, psycopg.errors.UntranslatableCharacter)
    return in_json or "NUL (0x00)" in str(exc.orig)


def _reason(exc: DBAPIError) -> str:
    """The first line that the driver said: the rest may quote statements and values."""
    return next(iter(str(exc.orig).splitlines()), type(exc.orig).__name__)
