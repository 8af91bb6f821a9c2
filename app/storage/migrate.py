"""Migrates a database to the tables of this version."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from importlib.resources import files
from typing import TYPE_CHECKING, Final

import psycopg
import structlog

from app.domain.errors import StorageUnavailableError
from app.postgres.connecting import connected
from app.postgres.urls import DatabaseUrl, direct

if TYPE_CHECKING:
    from alembic.config import Config
    from sqlalchemy import Engine

# The number of the advisory lock that a migrating process holds: "angelia" in ASCII.
MIGRATION_LOCK: Final = 0x616E67656C6961
# How long to wait while another process is migrating, in milliseconds.
_TURN_TIMEOUT_MS: Final = 60_000
_CONNECT_TIMEOUT_S: Final = 5
# Advice for a database whose revision is older than the first revision in this version. Only
# development versions had such old revisions, no release.
_BEFORE_FIRST: Final = (
    "Migrate it first with the commit before the one that added"
    " migrations/versions/0052_baseline.py, or begin with a new database."
)

_log = structlog.get_logger()


def upgrade(url: DatabaseUrl) -> str:
    """Migrate the database at `url` to the newest revision, if needed.

    Return the revision that the database then has. Tables of a newer version are not changed,
    because this version can use them (`Database.migrated`). So operators can return to this version
    after an upgrade.

    If several processes migrate at the same time, one of them migrates, and the others wait for up
    to a minute. A migration waits at most five seconds for the lock of a table. After an error the
    database is at the last completed revision.

    Raises:
        StorageUnavailableError: The database does not respond, a lock was not free in time, or the
            database is at a revision before the first one.
    """
    try:
        with _turn(url) as connection:
            revision = _revision(connection)
            if revision is not None and revision >= head():
                return revision
            _require_known(revision)
            _migrate(url)
            return head()
    except psycopg.Error as exc:
        raise _problem(exc, exc) from exc


def head() -> str:
    """Return the newest revision that this version has a migration for."""
    return max(_known())


def alembic_config(url: DatabaseUrl | None = None) -> "Config":
    """Return Alembic's configuration with the installed scripts and `url`."""
    from alembic.config import Config  # noqa: PLC0415 - 0.2 s of CPU, seldom needed

    config = Config()
    config.set_main_option("script_location", str(files("migrations")).replace("%", "%%"))
    config.attributes["url"] = url
    return config


@cache
def _known() -> frozenset[str]:
    names = [each.name for each in files("migrations").joinpath("versions").iterdir()]
    numbers = [name.partition("_")[0] for name in names]
    return frozenset(number for number in numbers if number.isdecimal())


def _require_known(revision: str | None) -> None:
    if revision is None or revision in _known():
        return
    message = f"Cannot migrate the database: it is at {revision}, which this version does not know."
    raise StorageUnavailableError(f"{message} {_BEFORE_FIRST}")


def _migrate(url: DatabaseUrl) -> None:
    from alembic import command  # noqa: PLC0415 - 0.2 s of CPU, seldom needed
    from sqlalchemy.exc import DBAPIError  # noqa: PLC0415 - imported only to migrate

    try:
        command.upgrade(alembic_config(url), "head")
    except DBAPIError as exc:
        raise _problem(exc, exc.orig) from exc
    _log.info("database_migrated", revision=head())


def engine_of(url: DatabaseUrl) -> "Engine":
    """Return the engine for Alembic.

    The engine opens a new connection for each use. The connection goes directly to the server, even
    if there is a pooler.
    """
    from sqlalchemy import create_engine  # noqa: PLC0415 - commands start without it
    from sqlalchemy.pool import NullPool  # noqa: PLC0415 - imported only to migrate

    creator = partial(connected, direct(url), connect_timeout=_CONNECT_TIMEOUT_S)
    return create_engine("postgresql+psycopg://", creator=creator, poolclass=NullPool)


def _problem(error: Exception, cause: BaseException | None) -> StorageUnavailableError:
    """Return the problem of the database in one line. If a migration has a bug, raise `error`."""
    return StorageUnavailableError(f"Cannot migrate the database: {_reason(error, cause)}")


def _reason(error: Exception, cause: BaseException | None) -> str:
    first = next(iter(str(cause).splitlines()), type(cause).__name__)
    match cause:
        case psycopg.errors.InsufficientPrivilege():
            return f"{first}: its user must own the tables, and may CREATE in the schema public"
        case psycopg.OperationalError() | psycopg.errors.ReadOnlySqlTransaction():
            return first
        case _:
            raise error


def _revision(connection: psycopg.Connection) -> str | None:
    """Return the revision of the database; None if the database is empty."""
    if connection.execute("SELECT to_regclass('alembic_version')").fetchone() == (None,):
        return None
    found = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    return None if found is None else str(found[0])


@contextmanager
def _turn(url: DatabaseUrl) -> Iterator[psycopg.Connection]:
    # Take the lock of migrations in a separate session, because it must outlive the transactions of
    # the migrations. The lock is released with the connection, however this process ends.
    with connected(direct(url), autocommit=True, connect_timeout=_CONNECT_TIMEOUT_S) as connection:
        connection.execute(f"SET statement_timeout = {_TURN_TIMEOUT_MS}")
        connection.execute("SELECT pg_advisory_lock(%s)", (MIGRATION_LOCK,))
        yield connection
