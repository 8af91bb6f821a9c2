"""Connections to the database: for transactions, and for reads without a transaction."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

import orjson
import psycopg
from psycopg import AsyncConnection, AsyncCursor
from psycopg.pq import Format
from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry

from app.postgres.connecting import READ_ONLY, Servers
from app.postgres.urls import DatabaseUrl, is_pooled
from app.storage.sockets import sever

CONNECT_TIMEOUT: Final = timedelta(seconds=2)
# The maximum duration of a transaction. Other transactions wait for a long one, because it holds a
# connection, and often the lock of changes.
TRANSACTION_TIMEOUT: Final = timedelta(seconds=10)
# The number of connections for reads. If all are in use, a read waits for one.
READS_AT_ONCE: Final = 4

# Settings of connections for reads. PostgreSQL makes one plan of a statement for all values. With
# these settings, the plan is good even if PostgreSQL makes it while the table of a new day is
# empty.
_READING: Final = {"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "jit": "off"}
_DEADLINE: Final = "deadline"
_HAS_ANSWERED: Final = "has_answered"


def transacting(url: DatabaseUrl, *, pool_size: int, statement_timeout: timedelta) -> AsyncEngine:
    """Return an engine for transactions.

    Connections are tested before use. A transaction that takes longer than TRANSACTION_TIMEOUT
    loses its connection.
    """
    settings = _session_settings(statement_timeout)
    if is_pooled(url):
        return _by_transaction(url, pool_size, settings)
    servers = Servers(url)
    engine = _engine(servers, pool_size, {"options": _options(settings)})
    _guard(engine.sync_engine, TRANSACTION_TIMEOUT, writable=servers.writable)
    return engine


def reading(url: DatabaseUrl, *, statement_timeout: timedelta) -> AsyncEngine:
    """Return an engine for reads without a transaction.

    With one server, connections are not tested before use, because a dead connection fails when it
    is used. With several servers, connections are tested, because a server may have become
    read-only. Through a pooler, each read is in a transaction, because settings last only for a
    transaction.
    """
    settings = {**_session_settings(statement_timeout), **_READING}
    binary = {"cursor_factory": _BinaryCursor}
    if is_pooled(url):
        return _by_transaction(url, READS_AT_ONCE, settings, **binary)
    servers = Servers(url)
    engine = _engine(
        servers,
        READS_AT_ONCE,
        {"options": _options(settings), **binary},
        isolation_level="AUTOCOMMIT",
        skip_autocommit_rollback=True,
        pool_reset_on_return=None,
    )
    longest = statement_timeout + CONNECT_TIMEOUT
    if servers.writable:
        _guard(engine.sync_engine, longest, writable=True)
    else:
        _limit(engine.sync_engine, longest)
    return engine


def _by_transaction(
    url: DatabaseUrl, pool_size: int, settings: Mapping[str, str], **arguments: object
) -> AsyncEngine:
    """Return an engine for a pooler. Each transaction may use another session of the server.

    So no statement is prepared, and each transaction starts with its settings.
    """
    servers = Servers(url)
    engine = _engine(servers, pool_size, {"prepare_threshold": None, **arguments})
    _guard(engine.sync_engine, TRANSACTION_TIMEOUT, writable=servers.writable)
    made = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in settings.items())

    def make(connection: Connection) -> None:
        connection.exec_driver_sql(f"SELECT {made}")

    event.listen(engine.sync_engine, "begin", make)
    return engine


class _BinaryCursor(AsyncCursor[Any]):
    """A cursor that gets results in binary form. As text, packed traces would be twice as long."""

    def __init__(self, *connected: Any, **options: Any) -> None:  # noqa: ANN401 - arguments of psycopg's class
        super().__init__(*connected, **options)
        self.format = Format.BINARY


def _engine(
    servers: Servers,
    pool_size: int,
    arguments: Mapping[str, object],
    **options: Any,  # noqa: ANN401 - options of create_async_engine
) -> AsyncEngine:
    async def connect(_: str, **given: Any) -> AsyncConnection[Any]:  # noqa: ANN401 - arguments of SQLAlchemy's dialect
        return await servers.connect(
            seconds_max=CONNECT_TIMEOUT.total_seconds(),
            application_name="angelia",
            keepalives_idle=5,
            keepalives_interval=2,
            keepalives_count=3,
            **given,
        )

    return create_async_engine(
        "postgresql+psycopg://",
        connect_args={"async_creator_fn": connect, **arguments},
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=CONNECT_TIMEOUT.total_seconds(),
        pool_use_lifo=True,
        # Hide the values of statements, because the log of a failed statement must not contain
        # bodies.
        hide_parameters=True,
        # Parse JSON with orjson, because rows have much JSON. orjson takes a quarter of the time.
        json_deserializer=orjson.loads,
        **options,
    )


def _session_settings(statement_timeout: timedelta) -> dict[str, str]:
    return {
        "statement_timeout": _milliseconds(statement_timeout),
        # Let the server end idle transactions, because a process may hang in the middle of a
        # transaction.
        "idle_in_transaction_session_timeout": _milliseconds(TRANSACTION_TIMEOUT),
        "timezone": "UTC",
    }


def _options(settings: Mapping[str, str]) -> str:
    return " ".join(f"-c {name}={value}" for name, value in settings.items())


def _milliseconds(duration: timedelta) -> str:
    return str(duration // timedelta(milliseconds=1))


def _guard(engine: Engine, longest: timedelta, *, writable: bool) -> None:
    """Test each connection before use, and close it if one use takes longer than `longest`.

    With `writable`, only connections to a server that accepts changes are used. The test closes the
    socket of a connection that does not respond, so calls fail immediately. SQLAlchemy's own ping
    would wait for a server that hangs. Cancelling a statement would take as long, because psycopg
    asks the server to cancel, and waits for a response.

    If an old connection does not respond, it is replaced by a new one. If a new connection does not
    respond, for example behind a pooler that cannot reach its server, the driver's error is raised.
    """
    ping = _ping_writable if writable else engine.dialect.do_ping

    def check_and_arm(dbapi: Any, entry: ConnectionPoolEntry, _proxy: object) -> None:  # noqa: ANN401 - SQLAlchemy's adapter has no type
        _arm(entry, dbapi.driver_connection, CONNECT_TIMEOUT)
        try:
            ping(dbapi)
        except psycopg.Error as exc:
            if _HAS_ANSWERED in entry.info:
                raise DisconnectionError from exc
            raise
        entry.info[_HAS_ANSWERED] = True
        _arm(entry, dbapi.driver_connection, longest)

    _bound_first_statements(engine)
    event.listen(engine, "checkout", check_and_arm)
    event.listen(engine, "checkin", _disarm)


def _ping_writable(dbapi: Any) -> None:  # noqa: ANN401 - the adapter has no type
    """Test a connection. Raise psycopg.OperationalError if the server accepts no changes."""
    before, dbapi.autocommit = dbapi.autocommit, True
    cursor = dbapi.cursor()
    try:
        cursor.execute(READ_ONLY)
        (answer,) = cursor.fetchone()
    finally:
        cursor.close()
        if not dbapi.closed:
            dbapi.autocommit = before
    if answer == "on":
        raise psycopg.OperationalError("the server has become read-only")


def _limit(engine: Engine, longest: timedelta) -> None:
    """Close a connection if one use of it takes longer than `longest`."""

    def arm(dbapi: Any, entry: ConnectionPoolEntry, _proxy: object) -> None:  # noqa: ANN401 - the adapter has no type
        _arm(entry, dbapi.driver_connection, longest)

    _bound_first_statements(engine)
    event.listen(engine, "checkout", arm)
    event.listen(engine, "checkin", _disarm)


def _bound_first_statements(engine: Engine) -> None:
    """Limit the time of the first statements that SQLAlchemy sends on a new connection."""

    def arm(dbapi: Any, entry: ConnectionPoolEntry) -> None:  # noqa: ANN401 - the adapter has no type
        _arm(entry, dbapi.driver_connection, CONNECT_TIMEOUT)

    event.listen(engine, "connect", arm, insert=True)


def _arm(entry: ConnectionPoolEntry, connection: AsyncConnection[Any], after: timedelta) -> None:
    _disarm(connection, entry)
    loop = asyncio.get_running_loop()
    entry.info[_DEADLINE] = loop.call_later(after.total_seconds(), sever, connection)


def _disarm(_dbapi: object, entry: ConnectionPoolEntry) -> None:
    if timer := entry.info.pop(_DEADLINE, None):
        timer.cancel()
