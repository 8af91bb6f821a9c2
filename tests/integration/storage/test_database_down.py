import asyncio
from datetime import timedelta

import pytest
from sqlalchemy import text

from app.domain.errors import StorageUnavailableError
from app.storage.catalogue.groups import GroupRepository
from app.storage.database import Database, open_database
from app.storage.notices import APPLIED, CHANGES, listen
from tests.servers.postgres import PostgresServer

SOON = timedelta(milliseconds=100)
# Whatever is answered at once is answered in it, on a busy machine, too.
QUITE_SOON = timedelta(seconds=2)
LATE = timedelta(seconds=60)


async def add_group(database: Database, name: str) -> None:
    async with database.transaction() as session:
        await GroupRepository(session).add(name)


async def test_a_database_that_was_away_is_used_again_without_an_error(
    postgres_server: PostgresServer,
) -> None:
    async with open_database(postgres_server.url) as database:
        await add_group(database, "before")
        await asyncio.to_thread(postgres_server.stop)
        with pytest.raises(StorageUnavailableError):
            await add_group(database, "meanwhile")
        await asyncio.to_thread(postgres_server.start)
        await add_group(database, "after")
        async with database.transaction() as session:
            assert await GroupRepository(session).names() == ["after", "before"]


async def test_what_was_committed_survives_a_crash(postgres_server: PostgresServer) -> None:
    async with open_database(postgres_server.url) as database:
        await add_group(database, "kept")
        await asyncio.to_thread(postgres_server.kill)
        with pytest.raises(StorageUnavailableError):
            await database.ping()
        await asyncio.to_thread(postgres_server.start)
        async with database.transaction() as session:
            assert await GroupRepository(session).names() == ["kept"]


async def test_a_transaction_that_the_crash_interrupts_says_so(
    postgres_server: PostgresServer,
) -> None:
    async with open_database(postgres_server.url) as database:

        async def interrupted() -> None:
            async with database.transaction() as session:
                await GroupRepository(session).add("lost")
                await asyncio.to_thread(postgres_server.kill)

        with pytest.raises(StorageUnavailableError):
            await interrupted()
        await asyncio.to_thread(postgres_server.start)
        async with database.transaction() as session:
            assert await GroupRepository(session).names() == []


async def test_a_server_that_hangs_is_not_waited_for(postgres_server: PostgresServer) -> None:
    async with open_database(postgres_server.url) as database:
        await database.ping()
        postgres_server.freeze()
        async with asyncio.timeout(LATE.total_seconds()):
            with pytest.raises(StorageUnavailableError):
                await database.ping()
        postgres_server.thaw()
        await database.ping()


async def test_a_slow_statement_is_ended(postgres_url: str) -> None:
    async with open_database(postgres_url, statement_timeout=QUITE_SOON) as database:
        with pytest.raises(StorageUnavailableError, match="timeout"):
            async with database.transaction() as session:
                await session.execute(text("SELECT pg_sleep(60)"))
        await database.ping()


async def test_who_finds_no_free_connection_is_told_so(postgres_url: str) -> None:
    async with open_database(postgres_url, pool_size=1) as database, database.transaction() as busy:
        await busy.execute(text("SELECT 1"))
        with pytest.raises(StorageUnavailableError, match="No free"):
            await database.ping()


@pytest.mark.parametrize("url", ["mysql://localhost/x", "nonsense", "postgresql://h:port/x"])
async def test_a_url_that_cannot_be_used_is_refused(url: str) -> None:
    with pytest.raises(StorageUnavailableError, match="postgresql://"):
        async with open_database(url):
            pass


async def test_all_channels_are_reported_after_the_connection_was_lost(
    postgres_server: PostgresServer,
) -> None:
    async with listen(postgres_server.url, [CHANGES, APPLIED]) as notices:
        assert await notices.wait(SOON) == frozenset()
        await asyncio.to_thread(postgres_server.stop)
        assert await notices.wait(SOON) == frozenset()
        await asyncio.to_thread(postgres_server.start)
        assert await notices.wait(LATE) == {CHANGES, APPLIED}
        assert await notices.wait(SOON) == frozenset()


async def test_listening_may_begin_before_the_database_is_there(
    postgres_server: PostgresServer,
) -> None:
    await asyncio.to_thread(postgres_server.stop)
    async with listen(postgres_server.url, [CHANGES]) as notices:
        await asyncio.to_thread(postgres_server.start)
        async with asyncio.timeout(LATE.total_seconds()):
            async for channel in notices:
                assert channel == CHANGES
                break
