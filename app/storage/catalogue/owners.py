"""Owners of topics and subscriptions, for access control."""

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.errors import SubscriptionNotFoundError, TopicNotFoundError
from app.domain.owner import Owner
from app.storage.tables import SubscriptionRow, TopicRow


class OwnerRepository:
    """Finds the owner of a topic or of a subscription by its name."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def of_topic(self, name: str) -> Owner:
        """Return the topic's owner.

        Raises:
            TopicNotFoundError: The topic does not exist.
        """
        row = TopicRow
        query = select(row.owner_source, row.owner_id).where(row.name == name)
        found = (await self._session.execute(query)).one_or_none()
        if found is None:
            raise TopicNotFoundError(f"Topic {name} does not exist")
        return Owner(source=found.owner_source, id=found.owner_id)

    async def of_subscription(self, topic: str, name: str) -> Owner:
        """Return the subscription's owner.

        Raises:
            SubscriptionNotFoundError: The subscription does not exist.
        """
        row = SubscriptionRow
        query = select(row.owner_source, row.owner_id).where(row.topic == topic, row.name == name)
        found = (await self._session.execute(query)).one_or_none()
        if found is None:
            raise SubscriptionNotFoundError(f"Subscription {name} of {topic} does not exist")
        return Owner(source=found.owner_source, id=found.owner_id)
