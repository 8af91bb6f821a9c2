import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import update

from app.domain.catalogue.subscription import DeliveryPolicy, State
from app.domain.errors import (
    SubscriptionExistsError,
    SubscriptionNotFoundError,
    TopicNotFoundError,
)
from app.domain.message import Partition
from app.domain.owner import Owner
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database
from app.storage.discards.undelivered import UndeliveredRepository
from app.storage.health.statuses import StatusRepository
from app.storage.tables import SubscriptionRow
from tests.integration.storage.builders import (
    TOPIC,
    a_cursor,
    a_load,
    a_subscription,
    add_subscription,
    add_topic,
    an_undelivered,
)


async def test_a_subscription_is_kept_with_all_its_settings_and_start(database: Database) -> None:
    subscription = a_subscription(
        state=State.PENDING,
        owner=Owner(source="LDAP", id="team"),
        description="invoices",
        contact="team@example.com",
        policy=DeliveryPolicy(
            rate=7,
            message_ttl=timedelta(seconds=12.5),
            request_timeout=timedelta(milliseconds=333),
            backoff_multiplier=2.0,
            retry_client_errors=True,
            adaptive_rate=False,
            heartbeat_max=timedelta(seconds=30),
        ),
        start={0: 12, 10: 2**40},
    )
    async with database.transaction() as session:
        await add_topic(session)
        added = await SubscriptionRepository(session).add(subscription)
    assert subscription == replace(added, created_at=None, modified_at=None, change=0)
    async with database.transaction() as session:
        assert await SubscriptionRepository(session).get(TOPIC, "billing") == added


async def test_a_name_is_taken_once_per_topic(database: Database) -> None:
    async with database.transaction() as session:
        await add_topic(session)
        await add_topic(session, "shop.returns")
        subscriptions = SubscriptionRepository(session)
        await subscriptions.add(a_subscription())
        await subscriptions.add(a_subscription(topic="shop.returns"))
        with pytest.raises(SubscriptionExistsError):
            await subscriptions.add(a_subscription())


async def test_every_call_says_whether_topic_or_subscription_is_missing(database: Database) -> None:
    async with database.transaction() as session:
        subscriptions = SubscriptionRepository(session)
        missing = a_subscription()
        for call in (
            lambda: subscriptions.get(TOPIC, "billing"),
            lambda: subscriptions.names(TOPIC),
            lambda: subscriptions.of_topic(TOPIC),
            lambda: subscriptions.add(missing),
            lambda: subscriptions.update(missing),
            lambda: subscriptions.delete(TOPIC, "billing"),
        ):
            with pytest.raises(TopicNotFoundError):
                await call()
        await add_topic(session)
        for call in (
            lambda: subscriptions.get(TOPIC, "billing"),
            lambda: subscriptions.update(missing),
            lambda: subscriptions.delete(TOPIC, "billing"),
        ):
            with pytest.raises(SubscriptionNotFoundError):
                await call()


async def test_subscriptions_are_listed_and_counted_by_topic(database: Database) -> None:
    async with database.transaction() as session:
        await add_topic(session)
        await add_topic(session, "shop.returns")
        subscriptions = SubscriptionRepository(session)
        for name in ("b", "a"):
            await subscriptions.add(a_subscription(name))
        assert await subscriptions.names(TOPIC) == ["a", "b"]
        assert [found.name for found in await subscriptions.of_topic(TOPIC)] == ["a", "b"]
        assert await subscriptions.names("shop.returns") == []
        assert await subscriptions.counts() == {TOPIC: 2}


async def test_a_change_is_read_back_in_its_own_transaction(database: Database) -> None:
    added = await add_subscription(database)
    async with database.transaction() as session:
        subscriptions = SubscriptionRepository(session)
        known = await subscriptions.get(TOPIC, "billing", for_update=True)
        changed = await subscriptions.update(replace(known, state=State.SUSPENDED))
        assert await subscriptions.get(TOPIC, "billing") == changed
    assert changed.state is State.SUSPENDED
    assert changed.change > added.change
    assert changed.created_at == added.created_at


async def test_changes_made_at_once_are_made_one_after_the_other(database: Database) -> None:
    await add_subscription(database)

    async def raise_rate() -> None:
        async with database.transaction() as session:
            subscriptions = SubscriptionRepository(session)
            known = await subscriptions.get(TOPIC, "billing", for_update=True)
            policy = replace(known.policy, rate=known.policy.rate + 1)
            await subscriptions.update(replace(known, policy=policy))

    async with asyncio.TaskGroup() as group:
        for _ in range(8):
            group.create_task(raise_rate())
    async with database.transaction() as session:
        subscription = await SubscriptionRepository(session).get(TOPIC, "billing")
    assert subscription.policy.rate == DeliveryPolicy().rate + 8


async def test_a_change_to_a_former_incarnation_does_not_touch_the_new_one(
    database: Database,
) -> None:
    former = await add_subscription(database)
    async with database.transaction() as session:
        await SubscriptionRepository(session).delete(TOPIC, former.name)
    present = await add_subscription(database)
    async with database.transaction() as session:
        subscriptions = SubscriptionRepository(session)
        with pytest.raises(SubscriptionNotFoundError):
            await subscriptions.update(replace(former, description="too late"))
        assert await subscriptions.get(TOPIC, former.name) == present


async def test_deleting_takes_the_reports_along_and_leaves_the_undelivered(
    database: Database,
) -> None:
    gone, other = [await add_subscription(database, name) for name in ("gone", "other")]
    async with database.transaction() as session:
        await StatusRepository(session).write(
            [a_cursor(gone.id), a_cursor(other.id)], [a_load(gone.id), a_load(other.id)]
        )
        discard = an_undelivered(subscription_id=gone.id)
        await UndeliveredRepository(session).record([discard], Partition("stream", 0), 1)
    async with database.transaction() as session:
        assert await SubscriptionRepository(session).delete(TOPIC, "gone") == gone
    async with database.transaction() as session:
        statuses = StatusRepository(session)
        assert await statuses.cursors(gone.id) == []
        assert await statuses.loads(gone.id, timedelta(hours=1)) == []
        assert len(await statuses.cursors(other.id)) == 1
        assert await UndeliveredRepository(session).last(gone.id) == discard


async def test_policy_settings_that_are_not_stored_have_their_defaults(database: Database) -> None:
    await add_subscription(database)
    async with database.transaction() as session:
        policy = {"rate": 5, "colour": "red"}
        await session.execute(update(SubscriptionRow).values(policy=policy))
    async with database.transaction() as session:
        subscription = await SubscriptionRepository(session).get(TOPIC, "billing")
    assert subscription.policy == DeliveryPolicy(rate=5)
