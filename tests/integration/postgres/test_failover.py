"""Of several servers the one that takes changes is used; one that no longer does is left."""

import asyncio
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest
from psycopg.errors import ConnectionTimeout
from sqlalchemy import text

from app.domain.errors import LogUnavailableError, StorageUnavailableError
from app.log.interface import MessageLog
from app.log.postgres import postgres_log
from app.postgres.connecting import Servers
from app.storage.catalogue.groups import GroupRepository
from app.storage.database import Database, Reading, open_database
from app.storage.notices import CHANGES, listen
from tests.contract.logs import TOPIC, Collected, created, eventually, read_values, records
from tests.servers.postgres import PostgresServer

LATE: Final = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two servers, of which the first takes changes."""

    first: PostgresServer
    second: PostgresServer

    @property
    def url(self) -> str:
        """Of both."""
        folders = [
            parse_qs(urlsplit(each.url).query)["host"][0] for each in (self.first, self.second)
        ]
        return (
            f"postgresql://postgres@/postgres?host={','.join(folders)}"
            "&target_session_attrs=read-write"
        )

    def promote_second(self) -> None:
        """As a failover does, which leaves connections to the first open."""
        self.first.take_changes(yes=False)
        self.second.take_changes(yes=True)


@pytest.fixture
def pair() -> Iterator[Pair]:
    with PostgresServer() as first, PostgresServer() as second:
        second.take_changes(yes=False)
        yield Pair(first, second)


async def add(database: Database, name: str) -> None:
    async with database.transaction() as session:
        await GroupRepository(session).add(name)


def names_at(server: PostgresServer) -> list[str]:
    with psycopg.connect(server.url) as connection:
        return [name for (name,) in connection.execute("SELECT name FROM groups ORDER BY name")]


async def names_read(reading: Reading) -> list[str]:
    return [row[0] for row in await reading.exec_driver_sql("SELECT name FROM groups")]


async def until_added(database: Database, name: str) -> None:
    """It may be told once of connections that were cut."""
    async with asyncio.timeout(LATE.total_seconds()):
        while True:
            try:
                return await add(database, name)
            except StorageUnavailableError:
                continue


async def test_a_server_that_became_read_only_is_left(pair: Pair) -> None:
    async with open_database(pair.url) as database:
        await add(database, "before")
        assert await database.read(names_read) == ["before"]
        await asyncio.to_thread(pair.promote_second)
        await until_added(database, "after")
        assert await database.read(names_read) == ["after"]
    assert (names_at(pair.first), names_at(pair.second)) == (["before"], ["after"])


@pytest.mark.long  # a silent connection is asked after 15 s
async def test_who_listens_leaves_it_too(pair: Pair) -> None:
    async with listen(pair.url, [CHANGES]) as notices:
        await asyncio.to_thread(pair.promote_second)
        # It may have missed something.
        assert await notices.wait(LATE) == {CHANGES}
        async with open_database(pair.second.url) as database, database.transaction() as session:
            await session.execute(text(f"SELECT pg_notify('{CHANGES}', '')"))
        assert await notices.wait(LATE) == {CHANGES}


async def append(log: MessageLog, value: str) -> None:
    """It may be told once of each connection to the server before."""
    async with asyncio.timeout(LATE.total_seconds()):
        while True:
            try:
                await log.append(TOPIC, records(value))
            except LogUnavailableError:
                continue
            return


@pytest.mark.long  # a silent connection is asked after 5 s
async def test_a_log_leaves_a_server_that_became_read_only(pair: Pair) -> None:
    pair.second.take_changes(yes=True)
    for server, value in ((pair.first, "before"), (pair.second, "of the second")):
        async with postgres_log(server.url, namespace="") as one:
            (partition,) = await created(one)
            await append(one, value)
    pair.second.take_changes(yes=False)
    async with postgres_log(pair.url, namespace="") as log, log.tail() as tail:
        collected = Collected(tail)
        tail.follow(partition, 0)
        await collected.until(partition, "before")
        await asyncio.to_thread(pair.promote_second)
        await append(log, "after")
        # What is at the same offset there was read already, here.
        await collected.until(partition, "before", "after")

        async def is_read() -> bool:
            return await read_values(log, partition) == ["of the second", "after"]

        await eventually(is_read, seconds=LATE.total_seconds())


@pytest.mark.parametrize("how", [pytest.param("killed", marks=pytest.mark.long), "hanging"])
async def test_a_server_that_is_gone_is_left(pair: Pair, how: str) -> None:
    async with open_database(pair.url) as database:
        await add(database, "before")
        await asyncio.to_thread(pair.second.take_changes, yes=True)
        await asyncio.to_thread(pair.first.kill if how == "killed" else pair.first.freeze)
        await until_added(database, "after")
        # Those that follow do not wait for the first one.
        await asyncio.gather(*(add(database, f"after{number}") for number in range(8)))
        await asyncio.to_thread(pair.first.start if how == "killed" else pair.first.thaw)
    assert len(names_at(pair.second)) == 9


async def test_who_connects_at_once_leaves_a_server_that_hangs(postgres_url: str) -> None:
    folder = parse_qs(urlsplit(postgres_url).query)["host"][0]
    # Its kernel accepts connections; nobody answers them.
    with socket.create_server(("127.0.0.1", 0), backlog=64) as hanging:
        port = hanging.getsockname()[1]
        path = urlsplit(postgres_url).path
        servers = Servers(f"postgresql://postgres@{path}?host=127.0.0.1,{folder}&port={port},")
        told = await asyncio.gather(
            *(servers.connect(seconds_max=0.5) for _ in range(10)), return_exceptions=True
        )
        assert {type(each) for each in told} == {ConnectionTimeout}
        for each in await asyncio.gather(
            *(servers.connect(seconds_max=LATE.total_seconds()) for _ in range(10))
        ):
            await each.close()
