"""Looking through what was discarded."""

from dataclasses import dataclass
from datetime import datetime

from app.domain.undelivered import Undelivered
from app.storage.database import Database
from app.storage.subscriptions import SubscriptionRepository
from app.storage.undelivered import UndeliveredPage, UndeliveredRepository


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which discards, newest first: `since` inclusive, `until` not; `reason` is a part of it."""

    limit: int
    after: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    status: int | None = None
    reason: str | None = None


class UndeliveredService:
    """The discards of a subscription; each method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def last(self, topic: str, name: str) -> Undelivered | None:
        """The newest, if there is any; TopicNotFoundError, SubscriptionNotFoundError."""
        async with self._database.transaction() as session:
            found = await SubscriptionRepository(session).get(topic, name)
            return await UndeliveredRepository(session).last(found.id)

    async def page(self, topic: str, name: str, wanted: Wanted) -> UndeliveredPage:
        """A page of them; TopicNotFoundError, SubscriptionNotFoundError, ValidationFailedError."""
        async with self._database.transaction() as session:
            found = await SubscriptionRepository(session).get(topic, name)
            return await UndeliveredRepository(session).page(
                found.id,
                limit=wanted.limit,
                after=wanted.after,
                since=wanted.since,
                until=wanted.until,
                status=wanted.status,
                reason=wanted.reason,
            )
