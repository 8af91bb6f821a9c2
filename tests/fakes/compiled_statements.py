"""Compiles each SQL statement once for all databases of a test process.

SQLAlchemy keeps compiled statements for each engine. Nearly every test opens a new engine. A test
of the API, which takes some 150 ms of CPU time, would take 35 to 45 ms more to compile its
statements.
"""

from typing import Final

from sqlalchemy import Connection, Engine, event
from sqlalchemy.dialects.postgresql.psycopg import PGDialectAsync_psycopg
from sqlalchemy.util import LRUCache

# More statements than the product has.
_CAPACITY: Final = 4000
_COMPILED: Final = LRUCache[object, object](_CAPACITY)


def share_compiled_statements() -> None:
    """Let all engines share their compiled statements from now on."""
    # A statement is found by its dialect, which each engine makes anew.
    PGDialectAsync_psycopg.__hash__ = _hash  # type: ignore[assignment,method-assign]
    PGDialectAsync_psycopg.__eq__ = _is_same  # type: ignore[method-assign]
    event.listen(Engine, "engine_connect", _share)


def _hash(dialect: object) -> int:
    return hash(type(dialect))


def _is_same(one: object, other: object) -> bool:
    """Return whether both dialects compile a statement to the same text."""
    return (
        isinstance(one, PGDialectAsync_psycopg)
        and isinstance(other, PGDialectAsync_psycopg)
        and one.server_version_info == other.server_version_info
    )


def _share(connection: Connection) -> None:
    connection.engine._compiled_cache = _COMPILED  # type: ignore[assignment] # noqa: SLF001
