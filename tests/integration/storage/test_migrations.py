from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, text

from app.cli.commands.migrate import migrate
from app.domain.errors import StorageUnavailableError
from app.storage.database import Database, open_database
from app.storage.migrate import alembic_config, engine_of, head, upgrade


def tables(url: str) -> set[str]:
    engine = engine_of(url)
    try:
        return set(inspect(engine).get_table_names())
    finally:
        engine.dispose()


def at(url: str, revision: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE alembic_version SET version_num = %s", (revision,))


def revision_of(url: str) -> str:
    with psycopg.connect(url) as connection:
        [(revision,)] = connection.execute("SELECT version_num FROM alembic_version")
        return str(revision)


def test_tables_and_migrations_agree(postgres_url: str) -> None:
    command.check(alembic_config(postgres_url))


def test_migrations_can_be_taken_back_and_made_again(postgres_url: str) -> None:
    migrated = tables(postgres_url)
    command.downgrade(alembic_config(postgres_url), "base")
    assert tables(postgres_url) == {"alembic_version"}
    upgrade(postgres_url)
    assert tables(postgres_url) == migrated
    command.check(alembic_config(postgres_url))


def test_a_database_that_no_step_leads_on_from_is_refused_and_left_alone(postgres_url: str) -> None:
    at(postgres_url, "0051")
    advice = "the commit before .*0052_baseline.py, or begin with a new database"
    with pytest.raises(StorageUnavailableError, match=f"it is at 0051.*{advice}"):
        upgrade(postgres_url)
    assert revision_of(postgres_url) == "0051"


def test_tables_of_a_newer_version_stay_as_they_are(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    at(postgres_url, "9999")
    monkeypatch.setenv("ANGELIA_DATABASE_URL", postgres_url)
    migrate()
    assert capsys.readouterr().out.splitlines() == [
        f"The tables are of a newer version (9999, this one has {head()}): they stay."
    ]
    assert revision_of(postgres_url) == "9999"


def test_the_last_migration_is_known_by_the_names_of_the_files() -> None:
    scripts = ScriptDirectory.from_config(alembic_config())
    assert head() == scripts.get_current_head()


def test_several_processes_may_migrate_at_once(empty_postgres_url: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(upgrade, [empty_postgres_url] * 4))
    assert "subscriptions" in tables(empty_postgres_url)


def test_migrating_twice_changes_nothing(postgres_url: str) -> None:
    before = tables(postgres_url)
    upgrade(postgres_url)
    assert tables(postgres_url) == before


async def test_a_database_knows_whether_it_is_migrated(empty_postgres_url: str) -> None:
    async with open_database(empty_postgres_url) as database:
        assert not await database.migrated()
    upgrade(empty_postgres_url)
    async with open_database(empty_postgres_url) as database:
        assert await database.migrated()


async def test_a_newer_version_of_the_tables_is_enough(database: Database) -> None:
    async with database.transaction() as session:
        await session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    assert await database.migrated()
    async with database.transaction() as session:
        await session.execute(text("UPDATE alembic_version SET version_num = '0001'"))
    assert not await database.migrated()


def test_a_database_that_is_not_there_cannot_be_migrated() -> None:
    with pytest.raises(StorageUnavailableError, match="Cannot migrate"):
        upgrade("postgresql://postgres@/postgres?host=%2Fnowhere")


def test_a_server_that_takes_no_changes_cannot_be_migrated(empty_postgres_url: str) -> None:
    read_only = f"{empty_postgres_url}&options=-c%20default_transaction_read_only%3Don"
    with pytest.raises(StorageUnavailableError, match=r"Cannot migrate .*: .*read-only") as caught:
        upgrade(read_only)
    assert "\n" not in caught.value.message


@pytest.mark.long  # a lock is waited for 5 s
def test_a_lock_that_is_not_free_in_time_is_told(postgres_url: str) -> None:
    command.downgrade(alembic_config(postgres_url), "0052")
    with psycopg.connect(postgres_url) as connection:
        connection.execute("LOCK TABLE alembic_version IN SHARE MODE")
        with pytest.raises(StorageUnavailableError, match=r"Cannot migrate .*lock timeout") as told:
            upgrade(postgres_url)
    assert "\n" not in told.value.message
