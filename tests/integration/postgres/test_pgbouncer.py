"""By way of a pgbouncer in transaction mode: each transaction may have another session."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Final

import pytest
from sqlalchemy import text

from app.domain.errors import StorageUnavailableError
from app.postgres.urls import ConfiguredUrl
from app.storage.catalogue.groups import GroupRepository
from app.storage.database import Database, Reading, open_database
from app.storage.notices import CHANGES, listen
from tests.servers.debian_postgres import USER, DebianPostgres, command_pgbouncer

LATE: Final = timedelta(seconds=60)
# psycopg prepares a statement that was executed more often than 5 times.
OFTEN: Final = 20


@pytest.fixture
def address(debian_postgres: DebianPostgres, debian_database: str) -> Iterator[ConfiguredUrl]:
    itself = debian_postgres.verified(debian_database)
    with debian_postgres.pgbouncer() as port:
        pooled = f"postgresql://{USER}@127.0.0.1:{port}/{debian_database}"
        yield ConfiguredUrl(pooled=lambda: pooled, direct=lambda: itself)


@pytest.fixture
async def database(address: ConfiguredUrl) -> AsyncIterator[Database]:
    async with open_database(address) as opened:
        yield opened


async def settings_of(database: Database) -> tuple[str, str]:
    async with database.transaction() as session:
        row = await session.execute(
            text("SELECT current_setting('statement_timeout'), current_setting('timezone')")
        )
        timeout, zone = row.one()
        return timeout, zone


async def test_sessions_that_change_are_no_matter(database: Database) -> None:
    async def add(number: int) -> None:
        async with database.transaction() as session:
            await GroupRepository(session).add(f"group{number}")

    async def names(reading: Reading) -> list[str]:
        rows = await reading.exec_driver_sql(
            "SELECT name FROM groups WHERE name <> %(no)s", {"no": ""}
        )
        return [row[0] for row in rows]

    for number in range(OFTEN):
        await asyncio.gather(*(add(number * 5 + each) for each in range(5)))
    found = await asyncio.gather(*(database.read(names) for _ in range(OFTEN)))
    assert {len(each) for each in found} == {OFTEN * 5}


async def test_what_is_asked_often_is_not_prepared_in_a_session_that_others_get(
    database: Database, address: ConfiguredUrl
) -> None:
    async def ask() -> int:
        async with database.transaction() as session:
            return int(await session.scalar(text("SELECT pg_backend_pid()")) or 0)

    before = {await ask() for _ in range(OFTEN)}
    async with open_database(address) as other, other.transaction() as held:
        # pgbouncer gives away the session that was used last.
        assert await held.scalar(text("SELECT pg_backend_pid()")) in before
        assert await ask() not in before


async def test_settings_are_made_in_each_transaction_and_left_to_no_other(
    database: Database, address: ConfiguredUrl
) -> None:
    assert (
        await asyncio.gather(*(settings_of(database) for _ in range(OFTEN)))
        == [("5s", "UTC")] * OFTEN
    )
    async with open_database(address, statement_timeout=timedelta(seconds=7)) as other:
        assert await settings_of(other) == ("7s", "UTC")

    async def planner(reading: Reading) -> str:
        row = await reading.exec_driver_sql("SELECT current_setting('enable_seqscan')")
        return str(row.scalar_one())

    assert await database.read(planner) == "off"
    async with database.transaction() as session:
        assert await session.scalar(text("SELECT current_setting('enable_seqscan')")) == "on"


async def test_notices_come_by_the_server_itself(
    database: Database, address: ConfiguredUrl
) -> None:
    async with listen(address, [CHANGES]) as notices:
        async with database.transaction() as session:
            await session.execute(text(f"SELECT pg_notify('{CHANGES}', '')"))
        assert await notices.wait(LATE) == {CHANGES}


async def test_a_pooler_that_was_not_said_is_noticed(
    database: Database, debian_postgres: DebianPostgres, debian_database: str
) -> None:
    assert await database.through_pooler()
    async with open_database(debian_postgres.verified(debian_database)) as itself:
        assert not await itself.through_pooler()
    with debian_postgres.pgbouncer() as port:
        async with open_database(f"postgresql://{USER}@127.0.0.1:{port}/{debian_database}") as one:
            with pytest.raises(Exception, match="is a pgbouncer: set ANGELIA_DATABASE_DIRECT_URL"):
                await one.ping()


async def test_a_pooler_whose_server_does_not_answer_is_a_database_that_is_away(
    debian_postgres: DebianPostgres, debian_database: str
) -> None:
    itself = debian_postgres.verified(debian_database)
    with debian_postgres.pgbouncer() as port:
        pooled = f"postgresql://{USER}@127.0.0.1:{port}/{debian_database}"
        address = ConfiguredUrl(pooled=lambda: pooled, direct=lambda: itself)
        async with open_database(address) as known, open_database(address) as new:
            await known.ping()
            # It lets clients in, and gives them no session.
            command_pgbouncer(port, "PAUSE")
            async with asyncio.timeout(LATE.total_seconds()):
                told = await asyncio.gather(known.ping(), new.ping(), return_exceptions=True)
            assert {type(each) for each in told} == {StorageUnavailableError}
            command_pgbouncer(port, "RESUME")
            await asyncio.gather(known.ping(), new.ping())
