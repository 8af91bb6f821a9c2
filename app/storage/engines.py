"""Connections to the database: for transactions, and for reading without any."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final

import orjson
import psycopg
from psycopg import AsyncConnection, AsyncCursor
from psycopg.pq import Format
from sqlalchemy import Engine, event
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry

from app.storage.sockets import sever
from app.storage.urls import sqlalchemy_url

CONNECT_TIMEOUT: Final = timedelta(seconds=2)
# A transaction holds a connection, and often the change clock, that others wait for.
TRANSACTION_TIMEOUT: Final = timedelta(seconds=10)
# Connections that are read on; who finds all in use waits for one.
READS_AT_ONCE: Final = 4

# A question's plan is made once, whatever its values, and is a good one when a day's table that
# was empty has filled.
_READING: Final = {"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "jit": "off"}
_NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})
_DEADLINE: Final = "deadline"


def transacting(url: str, *, pool_size: int, statement_timeout: timedelta) -> AsyncEngine:
    """Connections that answer when they are handed out, each kept for TRANSACTION_TIMEOUT."""
    engine = _engine(url, pool_size, connect_args=_connect_args(statement_timeout))
    _guard(engine.sync_engine)
    return engine


def reading(url: str, *, statement_timeout: timedelta) -> AsyncEngine:
    """Connections in no transaction, that ask the server nothing but what they are given to ask.

    They are not tried before they are handed out: one that has died meanwhile fails then.
    """
    arguments = {
        **_connect_args(statement_timeout, settings=_READING),
        "cursor_factory": _BinaryCursor,
    }
    engine = _engine(
        url,
        READS_AT_ONCE,
        connect_args=arguments,
        isolation_level="AUTOCOMMIT",
        skip_autocommit_rollback=True,
        pool_reset_on_return=None,
    )
    _limit(engine.sync_engine, statement_timeout + CONNECT_TIMEOUT)
    return engine


class _BinaryCursor(AsyncCursor[Any]):
    """One whose rows come as they are: as text, packs would be twice as long."""

    def __init__(self, *connected: Any, **options: Any) -> None:  # noqa: ANN401 - as psycopg's
        super().__init__(*connected, **options)
        self.format = Format.BINARY


def _engine(url: str, pool_size: int, **options: Any) -> AsyncEngine:  # noqa: ANN401 - of the function
    return create_async_engine(
        sqlalchemy_url(url),
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=CONNECT_TIMEOUT.total_seconds(),
        pool_use_lifo=True,
        # What is logged of a statement that failed names no bodies.
        hide_parameters=True,
        # Rows are full of JSON, and this reads it four times as fast.
        json_deserializer=orjson.loads,
        **options,
    )


def _connect_args(
    statement_timeout: timedelta, *, settings: Mapping[str, str] = _NO_SETTINGS
) -> dict[str, Any]:
    session_settings = {
        "statement_timeout": _milliseconds(statement_timeout),
        # Ours may be stopped in the middle of a transaction, too.
        "idle_in_transaction_session_timeout": _milliseconds(TRANSACTION_TIMEOUT),
        "timezone": "UTC",
        **settings,
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


def _limit(engine: Engine, longest: timedelta) -> None:
    """Cut a connection that is kept longer than that."""

    def arm(dbapi: Any, entry: ConnectionPoolEntry, _proxy: object) -> None:  # noqa: ANN401 - as above
        _arm(entry, dbapi.driver_connection, longest)

    event.listen(engine, "checkout", arm)
    event.listen(engine, "checkin", _disarm)


def _arm(entry: ConnectionPoolEntry, connection: AsyncConnection[Any], after: timedelta) -> None:
    _disarm(connection, entry)
    loop = asyncio.get_running_loop()
    entry.info[_DEADLINE] = loop.call_later(after.total_seconds(), sever, connection)


def _disarm(_dbapi: object, entry: ConnectionPoolEntry) -> None:
    if timer := entry.info.pop(_DEADLINE, None):
        timer.cancel()
