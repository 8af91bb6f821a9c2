"""Lists of discarded messages."""

from dataclasses import dataclass, replace

from app.domain.discards.undelivered import TopicOrSubscription, Undelivered, UndeliveredFilter
from app.domain.errors import ValidationFailedError
from app.storage.catalogue.ids import require_topic, subscription_id
from app.storage.database import Database, Reading
from app.storage.discards.pages import UndeliveredPage, page_of


@dataclass(frozen=True, slots=True, kw_only=True)
class UndeliveredRequest:
    """A requested page of discards, the newest first, and the conditions for them."""

    conditions: UndeliveredFilter
    limit: int
    after: str | None = None


class UndeliveredService:
    """Reads the discards of subscriptions."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def last(self, topic: str, name: str) -> Undelivered | None:
        """Return the newest discard of a subscription, if there is any.

        Raises:
            TopicNotFoundError: The topic does not exist.
            SubscriptionNotFoundError: The subscription does not exist.
        """
        newest = UndeliveredRequest(conditions=UndeliveredFilter(), limit=1)
        page = await self._page_of(TopicOrSubscription(topic=topic, subscription=name), newest)
        return page.items[0] if page.items else None

    async def page(self, topic: str, name: str, wanted: UndeliveredRequest) -> UndeliveredPage:
        """Return a page of a subscription's discards.

        Raises:
            TopicNotFoundError: The topic does not exist.
            SubscriptionNotFoundError: The subscription does not exist.
            ValidationFailedError: A value is not valid.
        """
        return await self._page_of(TopicOrSubscription(topic=topic, subscription=name), wanted)

    async def of_topic(self, topic: str, wanted: UndeliveredRequest) -> UndeliveredPage:
        """Return a page of the discards of a topic's subscriptions, including deleted ones.

        Raises:
            TopicNotFoundError: The topic does not exist.
            ValidationFailedError: A value is not valid.
        """
        return await self._page_of(TopicOrSubscription(topic=topic), wanted)

    async def anywhere(self, wanted: UndeliveredRequest) -> UndeliveredPage:
        """Return a page of the discards of one message in all subscriptions.

        Raises:
            ValidationFailedError: A value is not valid.
        """
        if wanted.conditions.message_id is None:
            raise ValidationFailedError.of("messageId", "must be given")
        return await self._database.read(lambda reading: _page(reading, wanted))

    async def _page_of(
        self, scope: TopicOrSubscription, wanted: UndeliveredRequest
    ) -> UndeliveredPage:
        of_it = replace(wanted, conditions=replace(wanted.conditions, scope=scope))

        async def ask(reading: Reading) -> UndeliveredPage:
            page = await _page(reading, of_it)
            if not page.items:
                # Check that topic and subscription exist, but only if nothing was found. Otherwise
                # the check is not needed.
                await _require(reading, scope)
            return page

        return await self._database.read(ask)


async def _page(reading: Reading, wanted: UndeliveredRequest) -> UndeliveredPage:
    return await page_of(reading, wanted.conditions, limit=wanted.limit, after=wanted.after)


async def _require(reading: Reading, scope: TopicOrSubscription) -> None:
    if scope.subscription is None:
        await require_topic(reading, scope.topic)
    else:
        await subscription_id(reading, scope.topic, scope.subscription)
