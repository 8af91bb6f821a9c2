"""Looking through what was discarded."""

from dataclasses import dataclass, replace

from app.domain.errors import ValidationFailedError
from app.domain.undelivered import Undelivered, UndeliveredFilter
from app.storage.database import Database
from app.storage.subscriptions import SubscriptionRepository
from app.storage.topics import TopicRepository
from app.storage.undelivered import UndeliveredPage, UndeliveredRepository


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A page of the discards that are asked for, newest first."""

    asked: UndeliveredFilter
    limit: int
    after: str | None = None


class UndeliveredService:
    """The discards of subscriptions; each method is one transaction."""

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
            asked = replace(wanted.asked, subscription_id=found.id)
            return await _page(UndeliveredRepository(session), replace(wanted, asked=asked))

    async def of_topic(self, topic: str, wanted: Wanted) -> UndeliveredPage:
        """Those of all its subscriptions, deleted ones too; TopicNotFoundError, and as `page`."""
        async with self._database.transaction() as session:
            await TopicRepository(session).get(topic)
            asked = replace(wanted.asked, topic=topic)
            return await _page(UndeliveredRepository(session), replace(wanted, asked=asked))

    async def anywhere(self, wanted: Wanted) -> UndeliveredPage:
        """Those of one message at all subscriptions; ValidationFailedError."""
        if wanted.asked.message_id is None:
            raise ValidationFailedError.of("messageId", "must be given")
        async with self._database.transaction() as session:
            return await _page(UndeliveredRepository(session), wanted)


async def _page(repository: UndeliveredRepository, wanted: Wanted) -> UndeliveredPage:
    return await repository.page(wanted.asked, limit=wanted.limit, after=wanted.after)
