"""A server that Angelia does not support is refused by all who connect, in one line."""

import re
from collections.abc import Iterator

import pytest

from app.cli.commands.migrate import migrate
from app.domain.errors import StorageUnavailableError
from app.storage.database import open_database
from tests.fakes.outdated_postgres import outdated_postgres
from tests.integration.postgres.test_check import problems


@pytest.fixture
def outdated() -> Iterator[str]:
    """The URL of a server."""
    with outdated_postgres("13.22 (Debian 13.22-1)") as url:
        yield url


def refusal(url: str) -> str:
    place = url.partition("@")[2].partition("/")[0]
    return f"{place} is PostgreSQL 13, and Angelia needs 14 or newer (docs/postgres.md)"


def test_migrate_refuses_it(monkeypatch: pytest.MonkeyPatch, outdated: str) -> None:
    monkeypatch.setenv("ANGELIA_DATABASE_URL", outdated)
    with pytest.raises(StorageUnavailableError) as caught:
        migrate()
    assert caught.value.message == f"Cannot migrate the database: {refusal(outdated)}"


def test_the_check_names_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], outdated: str
) -> None:
    said = problems(monkeypatch, capsys, outdated)
    assert said["database"] == f"The database failed: {refusal(outdated)}"


async def test_it_is_not_used(outdated: str) -> None:
    async with open_database(outdated) as database:
        with pytest.raises(StorageUnavailableError) as caught:
            await database.ping()
    assert refusal(outdated) in caught.value.message


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
async def test_a_database_with_another_encoding_is_refused(
    monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    problem = f"has a database in {encoding}, and Angelia needs one in UTF8 (docs/postgres.md)"
    with outdated_postgres("15.12", encoding=encoding) as url:
        monkeypatch.setenv("ANGELIA_DATABASE_URL", url)
        with pytest.raises(StorageUnavailableError, match=re.escape(problem)):
            migrate()
        async with open_database(url) as database:
            with pytest.raises(StorageUnavailableError, match=re.escape(problem)):
                await database.ping()
