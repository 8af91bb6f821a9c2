"""The database: its connections, its transactions, and one translation of its failures."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from typing import Any, Final

import orjson
import psycopg
from psycopg import AsyncConnection
from sqlalchemy import Engine, event, text
from sqlalchemy.exc import (
    DBAPIError,
    DisconnectionError,
    InterfaceError,
    OperationalError,
    ProgrammingError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import (
    AsyncEngine,
    AsyncSession,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.pool import ConnectionPoolEntry

from app.domain.errors import StorageUnavailableError
from app.storage.migrate import head
from app.storage.sealing import VAULT
from app.storage.sockets import sever
from app.storage.urls import sqlalchemy_url
from app.vault import Vault

CONNECT_TIMEOUT: Final = timedelta(seconds=2)
STATEMENT_TIMEOUT: Final = timedelta(seconds=5)
# A transaction holds a connection, and often the change clock, that others wait for.
TRANSACTION_TIMEOUT: Final = timedelta(seconds=10)

_DEADLINE: Final = "deadline"
_NOT_MIGRATED: Final = (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn)


class Database:
    """A pool of connections to one database; get one from `open_database`."""

    def __init__(self, engine: AsyncEngine, *, vault: Vault) -> None:
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

    async def ping(self) -> None:
        """Return if the database answers; else StorageUnavailableError."""
        async with self.transaction() as session:
            await session.execute(text("SELECT 1"))

    async def migrated(self) -> bool:
        """Whether its tables are those of this version; StorageUnavailableError."""
        async with self.transaction() as session:
            if not await session.scalar(text("SELECT to_regclass('alembic_version') IS NOT NULL")):
                return False
            revision = await session.scalar(text("SELECT version_num FROM alembic_version"))
            return bool(revision == head())


@asynccontextmanager
async def open_database(
    url: str,
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
    engine = create_async_engine(
        sqlalchemy_url(url),
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=CONNECT_TIMEOUT.total_seconds(),
        pool_use_lifo=True,
        # What is logged of a statement that failed names no bodies.
        hide_parameters=True,
        # Rows are full of JSON, and this reads it four times as fast.
        json_deserializer=orjson.loads,
        connect_args=_connect_args(statement_timeout),
    )
    _guard(engine.sync_engine)
    try:
        yield Database(engine, vault=vault or Vault())
    finally:
        await engine.dispose()


@contextmanager
def translated() -> Iterator[None]:
    """Raise what says that the database is down, slow, busy or old as StorageUnavailableError."""
    try:
        yield
    except PoolTimeoutError as exc:
        raise StorageUnavailableError("No free database connection in time") from exc
    except (OperationalError, InterfaceError) as exc:
        raise StorageUnavailableError(f"The database failed: {_reason(exc)}") from exc
    except ProgrammingError as exc:
        if not isinstance(exc.orig, _NOT_MIGRATED):
            raise
        message = "The database has not this version's tables: migrate it"
        raise StorageUnavailableError(message) from exc
    except DBAPIError as exc:
        if not exc.connection_invalidated:
            raise
        raise StorageUnavailableError(f"The database went away: {_reason(exc)}") from exc


def _reason(exc: DBAPIError) -> str:
    """The first line that the driver said: the rest may quote statements and values."""
    return next(iter(str(exc.orig).splitlines()), type(exc.orig).__name__)


def _connect_args(statement_timeout: timedelta) -> dict[str, Any]:
    session_settings = {
        "statement_timeout": _milliseconds(statement_timeout),
        # Ours may be stopped in the middle of a transaction, too.
        "idle_in_transaction_session_timeout": _milliseconds(TRANSACTION_TIMEOUT),
        "timezone": "UTC",
    }
    return {
        "connect_timeout": int(CONNECT_TIMEOUT.total_seconds()),
        "application_name": "angelia",
        "options": " ".join(f"-c {name}={value}" for name, value in session_settings.items()),
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 3,
    }


def _milliseconds(duration: timedelta) -> int:
    return duration // timedelta(milliseconds=1)


def _guard(engine: Engine) -> None:
    """Hand out only connections that answer, and cut one that is kept too long.

    SQLAlchemy's own ping would wait for a server that hangs, and so would a cancelled statement:
    psycopg asks the server to cancel it, and waits. A socket that is shut fails at once.
    """

    def check_and_arm(dbapi: Any, entry: ConnectionPoolEntry, _proxy: object) -> None:  # noqa: ANN401 - SQLAlchemy's adapter has no type
        _arm(entry, dbapi.driver_connection, CONNECT_TIMEOUT)
        try:
            engine.dialect.do_ping(dbapi)
        except psycopg.Error as exc:
            raise DisconnectionError from exc
        _arm(entry, dbapi.driver_connection, TRANSACTION_TIMEOUT)

    event.listen(engine, "checkout", check_and_arm)
    event.listen(engine, "checkin", _disarm)


def _arm(entry: ConnectionPoolEntry, connection: AsyncConnection[Any], after: timedelta) -> None:
    _disarm(connection, entry)
    loop = asyncio.get_running_loop()
    entry.info[_DEADLINE] = loop.call_later(after.total_seconds(), sever, connection)


def _disarm(_dbapi: object, entry: ConnectionPoolEntry) -> None:
    if timer := entry.info.pop(_DEADLINE, None):
        timer.cancel()
