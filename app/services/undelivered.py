"""Looking through what was discarded."""

from dataclasses import dataclass, replace

from app.domain.errors import ValidationFailedError
from app.domain.undelivered import Undelivered, UndeliveredFilter
from app.storage.database import Database, Reading, session_on
from app.storage.named import require_topic, subscription_id
from app.storage.undelivered import UndeliveredPage, UndeliveredRepository


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A page of the discards that are asked for, newest first."""

    asked: UndeliveredFilter
    limit: int
    after: str | None = None


class UndeliveredService:
    """The discards of subscriptions."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def last(self, topic: str, name: str) -> Undelivered | None:
        """The newest, if there is any; TopicNotFoundError, SubscriptionNotFoundError."""

        async def ask(reading: Reading) -> Undelivered | None:
            its_id = await subscription_id(reading, topic, name)
            async with session_on(reading) as session:
                return await UndeliveredRepository(session).last(its_id)

        return await self._database.read(ask)

    async def page(self, topic: str, name: str, wanted: Wanted) -> UndeliveredPage:
        """A page of them; TopicNotFoundError, SubscriptionNotFoundError, ValidationFailedError."""

        async def ask(reading: Reading) -> UndeliveredPage:
            its_id = await subscription_id(reading, topic, name)
            return await _page(reading, wanted, replace(wanted.asked, subscription_id=its_id))

        return await self._database.read(ask)

    async def of_topic(self, topic: str, wanted: Wanted) -> UndeliveredPage:
        """Those of all its subscriptions, deleted ones too; TopicNotFoundError, and as `page`."""

        async def ask(reading: Reading) -> UndeliveredPage:
            await require_topic(reading, topic)
            return await _page(reading, wanted, replace(wanted.asked, topic=topic))

        return await self._database.read(ask)

    async def anywhere(self, wanted: Wanted) -> UndeliveredPage:
        """Those of one message at all subscriptions; ValidationFailedError."""
        if wanted.asked.message_id is None:
            raise ValidationFailedError.of("messageId", "must be given")
        return await self._database.read(lambda reading: _page(reading, wanted, wanted.asked))


async def _page(reading: Reading, wanted: Wanted, asked: UndeliveredFilter) -> UndeliveredPage:
    async with session_on(reading) as session:
        pages = UndeliveredRepository(session)
        return await pages.page(asked, limit=wanted.limit, after=wanted.after)
