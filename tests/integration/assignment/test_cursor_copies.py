"""The copies of commits that a worker reads from the database."""

from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database
from tests.integration.storage.builders import TOPIC, a_cursor, add_subscription
from workers.assignment.stores import DatabaseStatus


async def test_copies_are_those_that_were_reported_and_none_of_a_deleted_subscription(
    database: Database,
) -> None:
    subscription = await add_subscription(database)
    status = DatabaseStatus(database, "w-1")
    assert await status.cursors(subscription.id) == []
    copy = a_cursor(subscription.id)
    await status.write([copy], [])
    assert await status.cursors(subscription.id) == [copy]
    async with database.transaction() as session:
        await SubscriptionRepository(session).delete(TOPIC, subscription.name)
    assert await status.cursors(subscription.id) is None
