"""Reading without transactions: as safe as with them, in one turn to the server."""

import asyncio
from datetime import timedelta

import pytest
from sqlalchemy import text

from app.domain.errors import StorageUnavailableError
from app.storage.database import Database, Reading, open_database
from app.storage.engines import READS_AT_ONCE
from tests.servers.postgres import PostgresServer

SOON = timedelta(milliseconds=100)
# Whatever is answered at once is answered in it, on a busy machine, too.
QUITE_SOON = timedelta(seconds=2)
PATIENCE_S = 60.0


async def said(database: Database, query: str = "SELECT 7") -> object:
    async def ask(reading: Reading) -> object:
        return (await reading.exec_driver_sql(query)).scalar()

    return await database.read(ask)


async def test_a_connection_that_died_is_replaced_and_nobody_notices(
    postgres_server: PostgresServer,
) -> None:
    async with open_database(postgres_server.url) as database:
        await asyncio.gather(*(said(database) for _ in range(READS_AT_ONCE)))
        await asyncio.to_thread(postgres_server.stop)
        with pytest.raises(StorageUnavailableError):
            await said(database)
        await asyncio.to_thread(postgres_server.start)
        assert await said(database) == 7
        await asyncio.to_thread(postgres_server.kill)
        await asyncio.to_thread(postgres_server.start)
        assert await said(database) == 7


async def test_a_server_that_hangs_is_not_waited_for(postgres_server: PostgresServer) -> None:
    async with open_database(postgres_server.url, statement_timeout=QUITE_SOON) as database:
        await said(database)
        postgres_server.freeze()
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(StorageUnavailableError):
                await said(database)
        postgres_server.thaw()
        assert await said(database) == 7


async def test_a_slow_statement_is_ended(postgres_url: str) -> None:
    async with open_database(postgres_url, statement_timeout=QUITE_SOON) as database:
        with pytest.raises(StorageUnavailableError, match="timeout"):
            await said(database, "SELECT pg_sleep(60)")
        assert await said(database) == 7


async def test_questions_that_are_given_up_keep_no_connection(database: Database) -> None:
    for _ in range(READS_AT_ONCE + 1):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(SOON.total_seconds()):
                await said(database, "SELECT pg_sleep(60)")
    assert await said(database) == 7


async def test_no_transaction_is_left_open_behind_a_question(database: Database) -> None:
    """It would keep what is deleted from being cleared away."""
    await said(database, "SELECT count(*) FROM topics")
    asked = (
        "SELECT state FROM pg_stat_activity"
        " WHERE query = 'SELECT count(*) FROM topics' AND datname = current_database()"
    )
    async with database.transaction() as session:
        assert await session.scalar(text(asked)) == "idle"


async def test_who_asks_a_database_without_tables_is_told_to_migrate_it(
    empty_postgres_url: str,
) -> None:
    async with open_database(empty_postgres_url) as database:
        with pytest.raises(StorageUnavailableError, match="migrate"):
            await said(database, "SELECT count(*) FROM topics")


async def test_more_than_are_answered_at_once_wait_for_each_other(database: Database) -> None:
    questions = [said(database, "SELECT pg_sleep(0.01)") for _ in range(4 * READS_AT_ONCE)]
    assert len(await asyncio.gather(*questions)) == 4 * READS_AT_ONCE
