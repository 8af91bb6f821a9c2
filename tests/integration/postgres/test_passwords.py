"""Passwords in files: ours, and libpq's own; a new one is taken without a restart."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psycopg
import pytest
from psycopg import sql
from pydantic import SecretStr

from app.config import Settings
from app.domain.errors import StorageUnavailableError
from app.secret_files import SecretFile
from app.storage.database import open_database
from app.storage.embedded.configured import configured_url
from tests.servers.debian_postgres import HOST, PASSWORD, USER, DebianPostgres

LATE_S: Final = 60.0
NEW: Final = "another:one/@"


@pytest.fixture
def user(debian_postgres: DebianPostgres) -> Iterator[str]:
    """A user whose password a test may change."""
    name = sql.Identifier("rotated")
    with psycopg.connect(debian_postgres.admin_url, autocommit=True) as connection:
        connection.execute(
            sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(name, sql.Literal(PASSWORD))
        )
        yield "rotated"
        connection.execute(sql.SQL("DROP ROLE {}").format(name))


def changed(server: DebianPostgres, user: str, password: str) -> None:
    """The password, as of now, and for nobody the connection of before."""
    with psycopg.connect(server.admin_url, autocommit=True) as connection:
        statement = sql.SQL("ALTER ROLE {} PASSWORD {}")
        connection.execute(statement.format(sql.Identifier(user), sql.Literal(password)))
        ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s"
        connection.execute(ended, (user,))


async def test_a_password_is_changed_in_its_file_without_a_restart(
    debian_postgres: DebianPostgres, user: str, tmp_path: Path
) -> None:
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\n")
    settings = Settings(
        database_url=SecretStr(debian_postgres.verified("postgres", credentials=user)),
        database_password=SecretFile(file),
    )
    address = configured_url(settings)
    assert address is not None
    async with open_database(address) as database:
        await database.ping()
        changed(debian_postgres, user, NEW)
        with pytest.raises(StorageUnavailableError, match=f"password of the user {user}"):
            await database.ping()
        file.write_text(NEW)
        async with asyncio.timeout(LATE_S):
            await database.ping()


@pytest.mark.parametrize("given", ["PGPASSFILE", "passfile"])
async def test_a_pgpass_is_read(
    debian_postgres: DebianPostgres,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    given: str,
) -> None:
    file = tmp_path / "pgpass"
    escaped = PASSWORD.replace(":", r"\:")
    file.write_text(f"{HOST}:{debian_postgres.port}:*:{USER}:{escaped}\n")
    file.chmod(0o600)
    parameters = {"passfile": str(file)} if given == "passfile" else {}
    if given == "PGPASSFILE":
        monkeypatch.setenv("PGPASSFILE", str(file))
    url = debian_postgres.verified("postgres", credentials=USER, **parameters)
    async with open_database(url) as database:
        await database.ping()
