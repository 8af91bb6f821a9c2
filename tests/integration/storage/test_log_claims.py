"""Claims to change what the log has, where two want one and where one dies."""

import asyncio
from datetime import timedelta

import pytest

from app.domain.catalogue.log_claims import Intent, LogClaim
from app.storage.database import Database
from app.storage.runtime.log_claims import LogClaimRepository
from tests.integration.storage.test_superseded import until_one_waits

MINUTE = timedelta(minutes=1)
AT_ONCE = timedelta()


def a_claim(intent: Intent, token: str) -> LogClaim:
    return LogClaim(subject="topic a.b", intent=intent, token=token)


async def taken(database: Database, claim: LogClaim, length: timedelta = MINUTE) -> LogClaim | None:
    async with database.transaction() as session:
        return await LogClaimRepository(session).take(claim, length)


async def to_end(database: Database) -> Intent | None:
    """What whoever takes it over is to end."""
    async with database.transaction() as session:
        found = await LogClaimRepository(session).take_over("topic a.b", "later", MINUTE)
    return None if found is None else found.intent


@pytest.mark.parametrize("intent", Intent)
async def test_one_at_a_time_has_it(database: Database, intent: Intent) -> None:
    assert await taken(database, a_claim(intent, "first"))
    assert await taken(database, a_claim(intent, "second")) is None


async def test_a_deletion_that_has_not_begun_is_none_when_it_is_taken_over(
    database: Database,
) -> None:
    assert await taken(database, a_claim(Intent.DELETE, "dead"), AT_ONCE)
    assert await to_end(database) is not Intent.DELETE


async def test_a_deletion_that_has_begun_is_ended_by_whom_it_is_taken_over(
    database: Database,
) -> None:
    claim = await taken(database, a_claim(Intent.DELETE, "dead"), AT_ONCE)
    assert claim is not None
    async with database.transaction() as session:
        assert await LogClaimRepository(session).begin(claim)
    assert await to_end(database) is Intent.DELETE


async def test_what_an_earlier_one_left_is_still_to_be_ended_when_the_next_one_dies(
    database: Database,
) -> None:
    first = await taken(database, a_claim(Intent.DELETE, "first"))
    assert first is not None
    async with database.transaction() as session:
        await LogClaimRepository(session).abandon(first, Intent.DELETE)
    second = await taken(database, a_claim(Intent.DELETE, "second"), AT_ONCE)
    assert second is not None
    assert second.left is Intent.DELETE
    assert await to_end(database) is Intent.DELETE


async def test_what_another_has_by_now_is_not_begun(database: Database) -> None:
    late = await taken(database, a_claim(Intent.DELETE, "late"), AT_ONCE)
    assert late is not None
    assert await taken(database, a_claim(Intent.CREATE, "next"))
    async with database.transaction() as session:
        assert await LogClaimRepository(session).begin(late) is None


async def test_what_is_left_in_the_moment_in_which_the_next_one_asks_is_seen(
    database: Database,
) -> None:
    async with asyncio.TaskGroup() as tasks, database.transaction() as session:
        claims = LogClaimRepository(session)
        first = await claims.take(a_claim(Intent.DELETE, "first"), MINUTE)
        assert first is not None
        await claims.abandon(first, Intent.DELETE)
        # There is nothing yet that the next one could see.
        asking = tasks.create_task(taken(database, a_claim(Intent.CREATE, "next")))
        await until_one_waits(database)
    assert asking.result() is None
    assert await to_end(database) is Intent.DELETE
