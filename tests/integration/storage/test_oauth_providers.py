"""OAuth providers in the database, and how they reach those who send."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import text

from app.domain.catalogue.changes import Changes
from app.domain.catalogue.oauth import ClientAuthentication, GrantType, OAuthPolicy, OAuthProvider
from app.domain.catalogue.subscription import Subscription
from app.domain.errors import (
    OAuthProviderExistsError,
    OAuthProviderNotFoundError,
    SecretKeyMissingError,
    SecretUnreadableError,
)
from app.domain.secrets import MASK
from app.services.catalogue.secret_rotation import rotate_secrets
from app.storage.catalogue.changes import ChangeFeed
from app.storage.catalogue.oauth_providers import OAuthProviderRepository
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database, open_database
from app.vault import Vault
from tests.fakes.keys import KEY, OTHER_KEY
from tests.fakes.oauth import POLICY, a_provider
from tests.integration.storage.builders import a_subscription, add_topic, changes_after

PROVIDER = a_provider(
    client_authentication=ClientAuthentication.BASIC,
    initial_delay=timedelta(milliseconds=1),
    delay_max=timedelta(minutes=1),
    socket_timeout=timedelta(milliseconds=500),
)
USER = OAuthPolicy(
    provider_name="login", grant_type=GrantType.PASSWORD, username="me", password="hunter2"
)


async def add(database: Database, provider: OAuthProvider = PROVIDER) -> None:
    async with database.transaction() as session:
        await OAuthProviderRepository(session).add(provider)


async def get(database: Database, name: str = "login") -> OAuthProvider:
    async with database.transaction() as session:
        return await OAuthProviderRepository(session).get(name)


async def change(database: Database, provider: OAuthProvider) -> int:
    async with database.transaction() as session:
        number = await ChangeFeed(session).next_number()
        await OAuthProviderRepository(session).update(provider, change=number)
    return number


async def test_those_that_everybody_may_use_are_named(database: Database) -> None:
    await add(database)
    async with database.transaction() as session:
        assert await OAuthProviderRepository(session).unrestricted() == []
    for name in ("z", "a"):
        await add(database, replace(PROVIDER, name=name, unrestricted=True))
    async with database.transaction() as session:
        assert await OAuthProviderRepository(session).unrestricted() == ["a", "z"]


async def test_an_older_process_that_changes_one_leaves_it_everybodys(database: Database) -> None:
    await add(database, replace(PROVIDER, unrestricted=True))
    async with database.transaction() as session:
        # As it stores what it has changed: without what it does not know.
        await session.execute(
            text(
                "UPDATE oauth_providers SET modified_at = now(), settings = "
                "settings - '{unrestricted,owners,endpoint_hosts,scopes}'::text[]"
            )
        )
    assert (await get(database)).unrestricted


async def subscribe(database: Database, name: str, oauth: OAuthPolicy | None) -> Subscription:
    async with database.transaction() as session:
        return await SubscriptionRepository(session).add(a_subscription(name, oauth=oauth))


@pytest.fixture(autouse=True)
async def topic(database: Database) -> None:
    async with database.transaction() as session:
        await add_topic(session)


@pytest.fixture
async def without_key(postgres_url: str) -> AsyncIterator[Database]:
    async with open_database(postgres_url, vault=Vault()) as opened:
        yield opened


async def test_a_provider_is_read_as_it_was_stored(database: Database) -> None:
    await add(database)
    await add(database, replace(PROVIDER, name="another"))
    assert await get(database) == PROVIDER
    async with database.transaction() as session:
        assert await OAuthProviderRepository(session).names() == ["another", "login"]


async def test_there_is_one_provider_of_a_name(database: Database) -> None:
    await add(database)
    with pytest.raises(OAuthProviderExistsError):
        await add(database)


async def test_what_is_not_there_is_not_found(database: Database) -> None:
    with pytest.raises(OAuthProviderNotFoundError):
        await get(database)
    with pytest.raises(OAuthProviderNotFoundError):
        await change(database, PROVIDER)
    async with database.transaction() as session:
        with pytest.raises(OAuthProviderNotFoundError):
            await OAuthProviderRepository(session).delete("login")


async def test_secrets_are_not_in_the_database_as_they_are(database: Database) -> None:
    await add(database)
    await subscribe(database, "s", USER)
    async with database.transaction() as session:
        providers = await session.scalar(
            text("SELECT string_agg(p::text, '') FROM oauth_providers p")
        )
        rows = await session.scalar(text("SELECT string_agg(s::text, '') FROM subscriptions s"))
    assert "angelia" in providers
    assert PROVIDER.client_secret not in providers
    assert "hunter2" not in rows
    async with database.transaction() as session:
        stored = await SubscriptionRepository(session).get("shop.orders", "s")
    assert stored.oauth == USER


async def test_no_secret_is_stored_without_a_key(without_key: Database) -> None:
    with pytest.raises(SecretKeyMissingError):
        await add(without_key)


async def test_a_secret_under_an_unknown_key_locks_its_provider_and_no_other(
    database: Database, postgres_url: str
) -> None:
    await add(database)
    async with open_database(postgres_url, vault=Vault.of(OTHER_KEY)) as other:
        await add(other, replace(PROVIDER, name="readable"))
        locked = await get(other)
        assert (locked.client_secret, "key" in locked.locked) == (MASK, True)
        assert (await get(other, "readable")).locked == ""
        with pytest.raises(SecretUnreadableError):
            await change(other, replace(locked, request_timeout=timedelta(seconds=9)))
        # Its subscriptions wait, as those do whose own secrets cannot be read.
        await subscribe(other, "s", POLICY)
        [subscription] = (await changes_after(other, 0)).subscriptions
        assert subscription.locked == locked.locked
        # Who gives another secret unlocks it.
        await change(other, replace(PROVIDER, client_secret="another"))
        assert await get(other) == replace(PROVIDER, client_secret="another")


async def test_a_secret_cannot_be_moved_to_another_provider(database: Database) -> None:
    await add(database)
    await add(database, replace(PROVIDER, name="mine", token_endpoint="http://evil.test/"))
    stolen = text(
        "UPDATE oauth_providers SET settings = settings || jsonb_build_object('client_secret',"
        " (SELECT settings->'client_secret' FROM oauth_providers WHERE name = 'login'))"
        " WHERE name = 'mine'"
    )
    async with database.transaction() as session:
        await session.execute(stolen)
    moved = await get(database, "mine")
    assert (moved.client_secret, "not as it was stored" in moved.locked) == (MASK, True)


async def test_subscriptions_reach_those_who_send_with_their_providers(database: Database) -> None:
    await add(database)
    plain = await subscribe(database, "plain", None)
    asking = await subscribe(database, "asking", POLICY)
    changes = await changes_after(database, 0)
    assert changes.subscriptions == (plain, replace(asking, oauth_provider=PROVIDER))


async def test_a_changed_provider_changes_its_subscriptions_and_no_others(
    database: Database,
) -> None:
    await add(database)
    await add(database, replace(PROVIDER, name="another"))
    await subscribe(database, "plain", None)
    await subscribe(database, "other", replace(POLICY, provider_name="another"))
    asking = await subscribe(database, "asking", POLICY)
    known = await changes_after(database, 0)
    wanted = replace(PROVIDER, client_secret="another")
    number = await change(database, wanted)
    assert await changes_after(database, known.number) == Changes(
        number=number, subscriptions=(replace(asking, change=number, oauth_provider=wanted),)
    )


async def test_a_subscription_without_its_provider_reaches_those_who_send_all_the_same(
    database: Database,
) -> None:
    asking = await subscribe(database, "asking", POLICY)
    assert (await changes_after(database, 0)).subscriptions == (asking,)


async def test_it_is_known_who_uses_a_provider(database: Database) -> None:
    for name in ("c", "a", "b"):
        await subscribe(database, name, POLICY)
    await subscribe(database, "plain", None)
    async with database.transaction() as session:
        providers = OAuthProviderRepository(session)
        assert await providers.users("login", limit=2) == (3, ["shop.orders/a", "shop.orders/b"])
        assert await providers.users("another", limit=2) == (0, [])


async def test_a_rotation_takes_the_secrets_of_providers_and_policies_along(
    database: Database, postgres_url: str
) -> None:
    await add(database)
    await subscribe(database, "s", USER)
    async with open_database(postgres_url, vault=Vault.of(f"{OTHER_KEY},{KEY}")) as both:
        done = await rotate_secrets(both)
        assert (done.secrets, done.resealed, done.unreadable) == (2, 2, ())
    async with open_database(postgres_url, vault=Vault.of(OTHER_KEY)) as new:
        [subscription] = (await changes_after(new, 0)).subscriptions
    assert (subscription.oauth, subscription.oauth_provider) == (USER, PROVIDER)
    again = await rotate_secrets(database)
    assert [each.split(":")[0] for each in again.unreadable] == [
        "shop.orders/s",
        "OAuth provider login",
    ]
