from concurrent.futures import ThreadPoolExecutor

import pytest
from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect, text

from app.domain.errors import StorageUnavailableError
from app.storage.database import open_database
from app.storage.migrate import alembic_config, head, upgrade
from app.storage.urls import sqlalchemy_url


def tables(url: str) -> set[str]:
    engine = create_engine(sqlalchemy_url(url))
    try:
        return set(inspect(engine).get_table_names())
    finally:
        engine.dispose()


def test_tables_and_migrations_agree(postgres_url: str) -> None:
    command.check(alembic_config(postgres_url))


def test_migrations_can_be_taken_back_and_made_again(postgres_url: str) -> None:
    migrated = tables(postgres_url)
    command.downgrade(alembic_config(postgres_url), "base")
    assert tables(postgres_url) == {"alembic_version"}
    upgrade(postgres_url)
    assert tables(postgres_url) == migrated
    command.check(alembic_config(postgres_url))


def test_of_a_message_that_was_recorded_several_times_its_last_end_is_kept(
    postgres_url: str,
) -> None:
    command.downgrade(alembic_config(postgres_url), "0024-1")
    engine = create_engine(sqlalchemy_url(postgres_url))
    insert = """
    INSERT INTO undelivered (subscription_id, topic, subscription, message_id, discarded_at, reason,
      attempts, partition, "offset", body, headers)
    SELECT 's', 'g.t', 'n', 'm' || o, '2026-01-01'::timestamptz + n * interval '1 h', n, 1, 0, o,
      '', '[]' FROM generate_series(1, 3) o, unnest(ARRAY[1, 3, 2]) n WHERE n <= o
    """
    try:
        with engine.begin() as connection:
            connection.execute(text(insert))
        upgrade(postgres_url)
        with engine.begin() as connection:
            kept = connection.execute(text('SELECT "offset", reason FROM undelivered ORDER BY 1'))
            assert kept.all() == [(1, "1"), (2, "2"), (3, "3")]
    finally:
        engine.dispose()


def test_oauth_providers_from_before_they_named_their_users_are_marked(postgres_url: str) -> None:
    command.downgrade(alembic_config(postgres_url), "0051-1")
    engine = create_engine(sqlalchemy_url(postgres_url))
    insert = 'INSERT INTO oauth_providers (name, settings) VALUES (:name, \'{"client_id": "x"}\')'
    read = "SELECT settings, unrestricted FROM oauth_providers ORDER BY name"
    try:
        with engine.begin() as connection:
            connection.execute(text(insert), {"name": "before"})
        upgrade(postgres_url)
        with engine.begin() as connection:
            connection.execute(text(insert), {"name": "later"})
            [before, later] = connection.execute(text(read)).all()
        assert before == ({"client_id": "x"}, True)
        assert later == ({"client_id": "x"}, False)
    finally:
        engine.dispose()


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


def test_a_database_that_is_not_there_cannot_be_migrated() -> None:
    with pytest.raises(StorageUnavailableError, match="Cannot migrate"):
        upgrade("postgresql://postgres@/postgres?host=%2Fnowhere")
