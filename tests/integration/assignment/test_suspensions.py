from dataclasses import replace

from app.domain.access.audit import AuditFilter
from app.domain.catalogue.subscription import State, Subscription
from app.storage.access.audit import AuditRepository
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database
from tests.integration.storage.builders import TOPIC, add_subscription
from workers.assignment.stores import DatabaseSuspensions


async def stored(database: Database) -> Subscription:
    async with database.transaction() as session:
        return await SubscriptionRepository(session).get(TOPIC, "billing")


async def test_a_subscription_is_suspended_with_a_reason_and_as_a_change(
    database: Database,
) -> None:
    added = await add_subscription(database)
    assert await DatabaseSuspensions(database).suspend(added, "It is gone")
    async with database.transaction() as session:
        [event] = await AuditRepository(session).page(AuditFilter(), limit=9, before_id=None)
    assert (event.actor, event.change.name) == ("worker", f"{added.topic}/{added.name}")
    assert event.change.after == {"state": "SUSPENDED", "stateReason": "It is gone"}
    suspended = await stored(database)
    assert (suspended.state, suspended.state_reason) == (State.SUSPENDED, "It is gone")
    assert suspended.change > added.change
    assert not await DatabaseSuspensions(database).suspend(added, "Once more")
    assert await stored(database) == suspended


async def test_what_its_owner_changed_meanwhile_is_not_suspended(database: Database) -> None:
    added = await add_subscription(database)
    async with database.transaction() as session:
        changed = await SubscriptionRepository(session).update(replace(added, description="new"))
    assert not await DatabaseSuspensions(database).suspend(added, "It is gone")
    assert await stored(database) == changed


async def test_what_was_deleted_meanwhile_is_not_suspended(database: Database) -> None:
    former = await add_subscription(database)
    async with database.transaction() as session:
        await SubscriptionRepository(session).delete(TOPIC, former.name)
    assert not await DatabaseSuspensions(database).suspend(former, "It is gone")
    present = await add_subscription(database)
    assert not await DatabaseSuspensions(database).suspend(former, "It is gone")
    assert await stored(database) == present
