"""Secrets of subscriptions in the database: encrypted, bound to their row, and changed over."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import psycopg
import pytest

from app.domain.catalogue.headers import Header
from app.domain.catalogue.subscription import State, Subscription
from app.domain.errors import SecretKeyMissingError, SecretUnreadableError
from app.domain.secrets import MASK
from app.services.catalogue.secret_rotation import rotate_secrets
from app.storage.catalogue.changes import ChangeFeed
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database, open_database
from app.vault import Vault
from tests.fakes.keys import KEY, OTHER_KEY, VAULT
from tests.integration.storage.builders import TOPIC, a_subscription, add_topic, changes_after

SECRETS = ("s3cret-value", "s3cret-password")
BOTH = Vault.of(f"{OTHER_KEY},{KEY}")


def with_secrets(name: str = "billing") -> Subscription:
    return a_subscription(
        name,
        endpoint=f"http://user:{SECRETS[1]}@h.test/x",
        headers=(Header(name="X-Api-Key", value=SECRETS[0]), Header(name="X-Empty", value="")),
    )


async def add(database: Database, subscription: Subscription) -> Subscription:
    async with database.transaction() as session:
        if not await ChangeFeed(session).current():
            await add_topic(session)
        return await SubscriptionRepository(session).add(subscription)


async def get(database: Database, name: str = "billing") -> Subscription:
    async with database.transaction() as session:
        return await SubscriptionRepository(session).get(TOPIC, name)


async def update(database: Database, subscription: Subscription) -> Subscription:
    async with database.transaction() as session:
        return await SubscriptionRepository(session).update(subscription)


@asynccontextmanager
async def opened(url: str, *keys: str) -> AsyncIterator[Database]:
    vault = Vault.of(",".join(keys)) if keys else Vault()
    async with open_database(url, vault=vault) as database:
        yield database


def rows(url: str) -> str:
    with psycopg.connect(url) as connection:
        return str(connection.execute("SELECT subscriptions::text FROM subscriptions").fetchall())


def execute(url: str, statement: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(statement.encode("ascii"))


IN_THE_CLEAR = """
    UPDATE subscriptions SET endpoint = 'http://user:s3cret-password@h.test/x',
        settings = settings - 'endpoint_password'
        || '{"headers": [{"name": "X-Api-Key", "value": "s3cret-value"}], "later": 1}'
"""


SPOIL = """UPDATE subscriptions SET settings = settings || '{"endpoint_password": SPOILT}'"""


async def test_no_secret_is_in_the_database_and_all_are_there_when_read(
    database: Database, postgres_url: str
) -> None:
    wanted = with_secrets()
    added = await add(database, wanted)
    assert (added.endpoint, added.headers) == (wanted.endpoint, wanted.headers)
    assert await get(database) == added
    changed = await update(database, replace(added, description="new"))
    assert await get(database) == changed
    stored = rows(postgres_url)
    assert f"http://user:{MASK}@h.test/x" in stored
    assert not [secret for secret in SECRETS if secret in stored]
    assert not [secret for secret in SECRETS if secret in repr(changed)]


async def test_what_was_stored_in_the_clear_is_read_and_encrypted_by_the_next_change(
    database: Database, postgres_url: str
) -> None:
    await add(database, with_secrets())
    execute(postgres_url, IN_THE_CLEAR)
    found = await get(database)
    assert found.endpoint == f"http://user:{SECRETS[1]}@h.test/x"
    assert found.headers == (Header(name="X-Api-Key", value=SECRETS[0]),)
    await update(database, found)
    assert not [secret for secret in SECRETS if secret in rows(postgres_url)]


async def test_without_a_key_secrets_are_refused_and_all_else_is_stored(postgres_url: str) -> None:
    async with opened(postgres_url) as database:
        plain = await add(database, a_subscription("plain"))
        with pytest.raises(SecretKeyMissingError, match="ANGELIA_SECRET_KEY"):
            await add(database, with_secrets())
        with pytest.raises(SecretKeyMissingError):
            await update(database, replace(plain, endpoint="http://a:b@h.test/"))
        assert await get(database, "plain") == plain


async def test_without_a_key_what_is_in_the_clear_can_still_be_suspended(
    database: Database, postgres_url: str
) -> None:
    await add(database, with_secrets())
    execute(postgres_url, IN_THE_CLEAR)
    async with opened(postgres_url) as keyless:
        found = await get(keyless)
        async with keyless.transaction() as session:
            wanted = found.in_state(State.SUSPENDED, reason="enough")
            suspended = await SubscriptionRepository(session).set_state(wanted)
    assert (suspended.state, suspended.state_reason) == (State.SUSPENDED, "enough")
    assert suspended.headers == found.headers
    assert suspended.change > found.change


async def test_a_subscription_whose_key_is_unknown_is_locked_and_harms_no_other(
    database: Database, postgres_url: str
) -> None:
    await add(database, with_secrets())
    async with opened(postgres_url, OTHER_KEY) as other:
        readable = await add(other, with_secrets("readable"))
        locked, found = (await changes_after(other, 0)).subscriptions
        assert found == readable
        assert VAULT.key_ids[0] in locked.locked
        assert locked.endpoint == f"http://user:{MASK}@h.test/x"
        assert {header.value for header in locked.headers} == {MASK}
        with pytest.raises(SecretUnreadableError, match=VAULT.key_ids[0]):
            await update(other, replace(locked, description="new"))
    assert (await get(database)).headers == with_secrets().headers


async def test_a_secret_that_was_moved_to_another_row_is_not_used(
    database: Database, postgres_url: str
) -> None:
    await add(database, with_secrets())
    await add(database, a_subscription("thief"))
    execute(
        postgres_url,
        "UPDATE subscriptions SET (endpoint, settings) ="
        " (SELECT endpoint, settings FROM subscriptions WHERE name = 'billing')",
    )
    assert not (await get(database)).locked
    thief = await get(database, "thief")
    assert "not as it was stored" in thief.locked
    assert {header.value for header in thief.headers} == {MASK}


@pytest.mark.parametrize("spoilt", ["7", "{}", '{"sealed": 7}', '{"sealed": "v1.x"}', "[]"])
async def test_a_secret_that_is_none_locks_its_subscription_alone(
    database: Database, postgres_url: str, spoilt: str
) -> None:
    await add(database, with_secrets())
    execute(postgres_url, SPOIL.replace("SPOILT", spoilt))
    found = await get(database)
    assert "known form" in found.locked
    assert found.endpoint == f"http://user:{MASK}@h.test/x"


async def test_a_rotation_encrypts_everything_with_the_first_key_and_tells_nobody(
    database: Database, postgres_url: str
) -> None:
    await add(database, with_secrets("old"))
    await add(database, a_subscription("plain"))
    await add(database, with_secrets("clear"))
    execute(postgres_url, f"{IN_THE_CLEAR} WHERE name = 'clear'")
    before = await changes_after(database, 0)
    async with open_database(postgres_url, vault=BOTH) as rotating:
        done = await rotate_secrets(rotating)
        assert (done.secrets, done.resealed, done.unreadable) == (5, 5, ())
        again = await rotate_secrets(rotating)
        assert (again.secrets, again.resealed) == (5, 0)
    async with opened(postgres_url, OTHER_KEY) as after:
        assert await changes_after(after, 0) == before
    stored = rows(postgres_url)
    assert VAULT.key_ids[0] not in stored
    assert '\\"later\\": 1' in stored or '""later"": 1' in stored
    assert not [secret for secret in SECRETS if secret in stored]


async def test_a_rotation_says_what_it_cannot_read_and_does_the_rest(postgres_url: str) -> None:
    async with opened(postgres_url, KEY) as database:
        await add(database, with_secrets("a"))
    async with opened(postgres_url, OTHER_KEY) as database:
        await add(database, with_secrets("b"))
        done = await rotate_secrets(database)
    (locked,) = done.unreadable
    assert locked.startswith(f"{TOPIC}/a: ")
    assert VAULT.key_ids[0] in locked
    assert done.resealed == 0


async def test_a_rotation_needs_a_key(database: Database, postgres_url: str) -> None:
    await add(database, with_secrets())
    execute(postgres_url, IN_THE_CLEAR)
    async with opened(postgres_url) as keyless:
        with pytest.raises(SecretKeyMissingError):
            await rotate_secrets(keyless)
    assert (await get(database)).headers[0].value == SECRETS[0]


async def test_what_is_changed_during_a_rotation_is_not_undone_by_it(
    database: Database, postgres_url: str
) -> None:
    added = await add(database, with_secrets())
    new = (Header(name="X-New", value="n3w"),)
    async with (
        open_database(postgres_url, vault=BOTH) as rotating,
        asyncio.TaskGroup() as tasks,
        database.transaction() as session,
    ):
        await SubscriptionRepository(session).update(replace(added, headers=new))
        rotation = tasks.create_task(rotate_secrets(rotating))
        await _until_waiting(postgres_url)
    assert rotation.result().resealed == 2
    async with opened(postgres_url, OTHER_KEY) as after:
        assert (await get(after)).headers == new


async def _until_waiting(url: str) -> None:
    """Return when somebody waits for a lock."""
    waiting = (
        "SELECT 1 FROM pg_stat_activity"
        " WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )
    async with asyncio.timeout(60):
        while True:
            connection = await psycopg.AsyncConnection.connect(url, autocommit=True)
            async with connection:
                if await (await connection.execute(waiting)).fetchone():
                    return
