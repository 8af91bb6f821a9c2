"""A backup of PostgreSQL is restored beside a log that is newer, and with the log that is in it."""

import json
import subprocess
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import psycopg
import pytest
from psycopg import sql

from tests.e2e.service import Service, eventually, has_all, running
from tests.e2e.test_crashes import numbered
from tests.fakes.subscriber import Received, Reply, Subscriber
from tests.servers.debian_postgres import DebianPostgres

TOPIC: Final = "backup.orders"
BEFORE: Final = 20
AFTER: Final = 10


def refuses_odd(received: Received) -> Reply:
    return Reply(status=400 if json.loads(received.body)["n"] % 2 else 200)


class Backup:
    """Of a database, by the programs that docs/backup.md names."""

    def __init__(self, server: DebianPostgres, database: str, folder: Path) -> None:
        self._server = server
        self._url = server.verified(database)
        self._file = folder / "angelia.dump"
        self._restored = f"{database}_restored"

    def make(self) -> None:
        self._run("pg_dump", "--format=custom", f"--file={self._file}", self._url)

    def restored(self) -> str:
        """The URL of a new database with it."""
        with psycopg.connect(self._server.url("postgres"), autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(self._restored)))
        url = self._server.verified(self._restored)
        self._run("pg_restore", "--no-owner", "--exit-on-error", f"--dbname={url}", self._file)
        return url

    def _run(self, program: str, *arguments: str | Path) -> None:
        command = [self._server.programs / program, *arguments]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


@pytest.fixture
def backup(debian_postgres: DebianPostgres, debian_database: str, tmp_path: Path) -> Backup:
    return Backup(debian_postgres, debian_database, tmp_path)


async def discarded(service: Service, path: str, count: int) -> set[str]:
    return {each["messageId"] for each in await service.undelivered(path, count)}


@pytest.mark.long
async def test_what_postgres_lost_behind_kafka_is_recorded_anew_and_none_is_sent_again(
    on_kafka: Mapping[str, str],
    debian_postgres: DebianPostgres,
    debian_database: str,
    backup: Backup,
    logs: Path,
) -> None:
    configuration = {**on_kafka, "ANGELIA_DATABASE_URL": debian_postgres.verified(debian_database)}
    async with AsyncExitStack() as stack:
        receiver = await stack.enter_async_context(Subscriber(refuses_odd))
        async with running(configuration, logs) as service:
            await service.topic(TOPIC, partitions=2)
            path = await service.subscribe(TOPIC, "billing", receiver.url)
            published = await service.publish_all(TOPIC, numbered(BEFORE))
            await service.accounted(path, BEFORE)
            await discarded(service, path, BEFORE // 2)
            backup.make()
            await service.topic("backup.newer", partitions=1)
            published |= await service.publish_all(TOPIC, numbered(AFTER, start=BEFORE))
            await service.accounted(path, BEFORE + AFTER)
            all_discarded = await discarded(service, path, (BEFORE + AFTER) // 2)
            for process in service.processes:
                assert await process.stop() == 0
            once = len(receiver.received)
        configuration["ANGELIA_DATABASE_URL"] = backup.restored()
        async with running(configuration, logs) as service:
            assert await discarded(service, path, len(all_discarded)) == all_discarded
            newer = await service.publish_all(TOPIC, numbered(AFTER, start=BEFORE + AFTER))
            await has_all(receiver, newer)
            listed = await service.http.get("/consistency/inconsistencies/topics?only=log")
            assert listed.json() == ["backup.newer"]
            service.assert_once(receiver.message_ids, published | newer)
            assert len(receiver.received) == once + AFTER or service.stood_still()


async def test_the_log_in_postgres_is_restored_with_its_positions(
    on_embedded_log: Mapping[str, str],
    debian_postgres: DebianPostgres,
    debian_database: str,
    backup: Backup,
    logs: Path,
) -> None:
    url = debian_postgres.verified(debian_database)
    configuration = {**on_embedded_log, "ANGELIA_DATABASE_URL": url}
    async with AsyncExitStack() as stack:
        receiver = await stack.enter_async_context(Subscriber())
        async with running(configuration, logs) as service:
            await service.topic(TOPIC, partitions=2)
            path = await service.subscribe(TOPIC, "billing", receiver.url)
            waiting = await service.subscribe(TOPIC, "waiting", f"{receiver.url}waiting")
            await service.set_state(waiting, "SUSPENDED")
            await service.applied(waiting)
            before = await service.publish_all(TOPIC, numbered(BEFORE))
            await service.accounted(path, BEFORE)
            await _committed(service, path)
            backup.make()
            await service.publish_all(TOPIC, numbered(AFTER, start=BEFORE))
            for process in service.processes:
                assert await process.stop() == 0
        receiver.received.clear()
        configuration["ANGELIA_DATABASE_URL"] = backup.restored()
        async with running(configuration, logs) as service:
            await service.set_state(waiting, "ACTIVE")
            await has_all(receiver, before)
            newer = await service.publish_all(TOPIC, numbered(AFTER, start=BEFORE))
            await service.accounted(waiting, BEFORE + AFTER)
    came = {path: _ids_at(receiver, path) for path in ("/", "/waiting")}
    assert came["/waiting"] == before.keys() | newer.keys()
    assert came["/"] == newer.keys()


async def _committed(service: Service, path: str) -> None:
    async def is_there() -> bool:
        return int((await service.metrics(path))["lag"]) == 0

    await eventually(is_there)


def _ids_at(receiver: Subscriber, path: str) -> set[str]:
    return {each.message_id for each in receiver.received if each.path == path}
