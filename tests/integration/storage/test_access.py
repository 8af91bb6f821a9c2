"""What is kept of keys, events and requests, and for how long."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from app.domain.access.audit import Action, AuditFilter, Change
from app.domain.access.keys import EVERYBODY, Scope, ScopeKind
from app.domain.errors import RequestUnderWayError
from app.domain.idempotency import KeyedRequest, StoredAnswer
from app.services.access.keys import KeyDraft, KeyService
from app.services.idempotent_requests import IdempotentRequests
from app.services.pruning import Pruner
from app.storage.access.audit import AuditRepository
from app.storage.access.keys import AccessRepository
from app.storage.database import Database

ANSWER = StoredAnswer(status=201, headers={"location": "/groups/a"}, body=b"{}")


def request(claim: str) -> KeyedRequest:
    return KeyedRequest(caller="", key="k", digest=b"d", claim=claim)


async def set_back(database: Database, table: str, column: str, *, by: timedelta) -> None:
    """Make all that is there as old as that."""
    async with database.transaction() as session:
        statement = f"UPDATE {table} SET {column} = {column} - :by"  # noqa: S608 - names of ours
        await session.execute(text(statement), {"by": by})


async def count(database: Database, table: str) -> int:
    async with database.transaction() as session:
        found = await session.scalar(text(f"SELECT count(*) FROM {table}"))  # noqa: S608 - the same
    return int(found or 0)


async def prune(database: Database) -> None:
    kept = timedelta(days=30)
    await Pruner(database, undelivered_kept=kept, audit_kept=kept).prune()


async def test_a_claim_of_who_died_is_free_after_a_minute_and_lost_to_its_taker(
    database: Database,
) -> None:
    requests = IdempotentRequests(database)
    assert await requests.claim(request("dead")) is None
    with pytest.raises(RequestUnderWayError):
        await requests.claim(request("next"))
    await set_back(database, "idempotent_requests", "claimed_at", by=timedelta(seconds=61))
    assert await requests.claim(request("next")) is None
    # The first one was only slow: what it says counts no more.
    await requests.answered(request("dead"), ANSWER)
    await requests.give_up(request("dead"))
    with pytest.raises(RequestUnderWayError):
        await requests.claim(request("third"))
    await requests.answered(request("next"), ANSWER)
    assert await requests.claim(request("third")) == ANSWER


async def test_an_answer_is_kept_for_a_day(database: Database) -> None:
    requests = IdempotentRequests(database)
    await requests.claim(request("one"))
    await requests.answered(request("one"), ANSWER)
    await set_back(database, "idempotent_requests", "claimed_at", by=timedelta(hours=23))
    assert await requests.claim(request("two")) == ANSWER
    await prune(database)
    assert await count(database, "idempotent_requests") == 1
    await set_back(database, "idempotent_requests", "claimed_at", by=timedelta(hours=2))
    await prune(database)
    assert await count(database, "idempotent_requests") == 0


async def test_old_events_and_keys_that_ended_long_ago_are_forgotten(database: Database) -> None:
    keys = KeyService(database)
    made = [await keys.create_first()]
    assert made[0] is not None
    await keys.revoke(made[0].key.id)
    await set_back(database, "api_keys", "revoked_at", by=timedelta(days=31))
    await set_back(database, "audit_events", "at", by=timedelta(days=31))
    async with database.transaction() as session:
        change = Change(action=Action.CREATED, kind="group", name="a")
        await AuditRepository(session).add(EVERYBODY, change)
    await prune(database)
    assert await count(database, "api_keys") == 0
    async with database.transaction() as session:
        left = await AuditRepository(session).page(AuditFilter(), limit=9, before_id=None)
    assert [event.change.name for event in left] == ["a"]
    # Nobody gets a first key again because the old ones are forgotten.
    assert await keys.create_first() is None


async def test_a_key_of_a_newer_version_opens_nothing_and_hides_no_other(
    database: Database,
) -> None:
    keys = KeyService(database)
    first = await keys.create_first()
    assert first is not None
    await keys.create(KeyDraft(name="newer", scopes=(Scope(kind=ScopeKind.READ),)))
    async with database.transaction() as session:
        scopes = """UPDATE api_keys SET scopes = '["levitate"]' WHERE name = 'newer'"""
        await session.execute(text(scopes))
        state = await AccessRepository(session).since(None)
    assert state is not None
    assert [key.id for key in state.keys] == [first.key.id]


async def test_the_keys_are_read_again_when_another_server_gives_the_number(
    database: Database,
) -> None:
    """That server may be a replica that was behind, and count other changes."""
    async with database.transaction() as session:
        repository = AccessRepository(session)
        known = await repository.since(None)
        assert known is not None
        assert await repository.since(known.last) is None
        other = known.last._replace(server=datetime(2020, 1, 1, tzinfo=UTC))
        assert await repository.since(other) == known
