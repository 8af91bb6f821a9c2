"""A cancelled task ends, even if the database raises an error meanwhile."""

import asyncio

import psycopg
import pytest
from sqlalchemy.exc import OperationalError

from app.domain.errors import StorageUnavailableError
from app.storage.database import Database, cancellable, translated
from tests.integration.storage.test_superseded import until_one_waits
from tests.integration.storage.test_traces import STREAM, a_pack, a_row, stored

LOCK = "LOCK TABLE trace_packs IN ACCESS EXCLUSIVE MODE"
COPYING = "SELECT count(*) FROM pg_stat_progress_copy WHERE datname = current_database()"


async def test_a_recorder_that_is_cancelled_as_its_copy_starts_ends(
    database: Database, postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """psycopg leaves the connection within the COPY, where a rollback fails."""
    store = await stored(database, a_pack(a_row()))
    with psycopg.connect(postgres_url) as other, psycopg.connect(postgres_url) as looking:
        looking.autocommit = True
        other.execute(LOCK)
        recording = asyncio.create_task(store.record([a_pack(a_row())], STREAM, 2))
        await until_one_waits(database)
        other.rollback()
        # Without a turn of the event loop: the server's response to COPY is not read yet.
        while looking.execute(COPYING).fetchone() == (0,):
            pass
    recording.cancel()
    await asyncio.wait([recording])
    assert recording.cancelled()
    assert not caplog.records
    await store.record([a_pack(a_row())], STREAM, 2)


async def test_an_error_after_a_cancellation_does_not_replace_it() -> None:
    async def rolling_back() -> None:
        with cancellable():
            try:
                await asyncio.Event().wait()
            finally:
                raise an_error()

    task = asyncio.create_task(rolling_back())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


async def test_an_error_in_a_task_that_ends_is_an_error() -> None:
    """What a task does after its cancellation may fail, and is told so."""

    async def leaving() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            try:
                with translated(), cancellable():
                    raise an_error()
            except StorageUnavailableError as exc:
                return exc.message
        return ""

    task = asyncio.create_task(leaving())
    await asyncio.sleep(0)
    task.cancel()
    assert await task == "The database failed: it is gone"


def an_error() -> OperationalError:
    return OperationalError("ROLLBACK", {}, psycopg.OperationalError("it is gone"))
