"""Stores subscriptions."""

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Select, cast, delete, exists, func, or_, select, update
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.catalogue.subscription import Subscription
from app.domain.errors import (
    SubscriptionExistsError,
    SubscriptionNotFoundError,
    TopicNotFoundError,
)
from app.domain.paging import ALL_NAMES, NamePage
from app.domain.trace import TrackingMode
from app.storage.catalogue.changes import SUBSCRIPTION, ChangeFeed
from app.storage.catalogue.operations import ConstraintRepository
from app.storage.catalogue.rows import subscription_of, subscription_values
from app.storage.paging import paged
from app.storage.sealing import vault_of
from app.storage.tables import CursorRow, SubscriptionLoadRow, SubscriptionRow, TopicRow


class SubscriptionRepository:
    """Stores subscriptions. Each change gets a number, which is returned with the subscription."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session
        self._feed = ChangeFeed(session)
        self._vault = vault_of(session)

    async def get(self, topic: str, name: str, *, for_update: bool = False) -> Subscription:
        """Return the topic's subscription.

        With `for_update`, no other transaction can change any topic or subscription before this
        transaction ends.

        Raises:
            TopicNotFoundError: The topic does not exist.
            SubscriptionNotFoundError: The subscription does not exist.
        """
        if for_update:
            await self._feed.hold()
        row = await self._session.scalar(_named(topic, name))
        if row is None:
            raise await self._missing(topic, name)
        return subscription_of(row, self._vault)

    async def names(
        self, topic: str, page: NamePage = ALL_NAMES, *, tracked: bool = False
    ) -> list[str]:
        """Return the names of the topic's subscriptions on one page, in alphabetical order.

        By default, the page has all names. With `tracked`, only subscriptions with tracing are
        included.

        Raises:
            TopicNotFoundError: The topic does not exist.
        """
        await self._require_topic(topic)
        query = select(SubscriptionRow.name).where(SubscriptionRow.topic == topic)
        if tracked:
            query = query.where(
                SubscriptionRow.settings["tracking"].astext != TrackingMode.OFF.value
            )
        return list(await self._session.scalars(paged(query, SubscriptionRow.name, page)))

    async def of_topic(self, topic: str) -> list[Subscription]:
        """Return the topic's subscriptions, by name.

        Raises:
            TopicNotFoundError: The topic does not exist.
        """
        await self._require_topic(topic)
        query = select(SubscriptionRow).where(SubscriptionRow.topic == topic)
        rows = await self._session.scalars(query.order_by(SubscriptionRow.name))
        return [subscription_of(row, self._vault) for row in rows]

    async def with_ids(self, ids: Collection[str]) -> list[Subscription]:
        """Return the subscriptions with these ids. Ids that do not exist are ignored."""
        query = select(SubscriptionRow).where(SubscriptionRow.id.in_(ids))
        rows = await self._session.scalars(query.order_by(SubscriptionRow.id))
        return [subscription_of(row, self._vault) for row in rows]

    async def exists(self, subscription_id: str) -> bool:
        """Return whether there is a subscription with this id."""
        query = select(SubscriptionRow.id).where(SubscriptionRow.id == subscription_id)
        return await self._session.scalar(query) is not None

    async def dead_lettering(self, topic: str) -> list[Subscription]:
        """Return subscriptions that are affected by dead letters from or to `topic`.

        These are the subscriptions to `topic` that have a dead-letter topic, and all subscriptions
        whose dead-letter topic is `topic`.
        """
        taking = SubscriptionRow.settings["dead_letter"]["topic"].astext
        query = select(SubscriptionRow).where(
            taking.is_not(None), or_(SubscriptionRow.topic == topic, taking == topic)
        )
        rows = await self._session.scalars(query.order_by(SubscriptionRow.change))
        return [subscription_of(row, self._vault) for row in rows]

    async def counts(self) -> Mapping[str, int]:
        """Return, for each topic with subscriptions, the number of its subscriptions."""
        query = select(SubscriptionRow.topic, func.count().label("subscriptions"))
        query = query.group_by(SubscriptionRow.topic)
        rows = await self._session.execute(query)
        return {row.topic: row.subscriptions for row in rows}

    async def require_new(self, topic: str, name: str) -> None:
        """Check that no subscription has that name.

        Raises:
            SubscriptionExistsError: A subscription has that name.
        """
        if await self._session.scalar(select(exists(_named(topic, name)))):
            raise _there_already(topic, name)

    async def add(self, subscription: Subscription) -> Subscription:
        """Add the subscription, with the offsets at which it starts.

        This call sets the times and the change number of the subscription.

        Raises:
            TopicNotFoundError: The topic does not exist.
            SubscriptionExistsError: The subscription already exists.
        """
        change = await self._feed.next_number()
        await self._require_topic(subscription.topic)
        added = (
            insert(SubscriptionRow)
            .values(
                id=subscription.id,
                topic=subscription.topic,
                name=subscription.name,
                change=change,
                **subscription_values(subscription, self._vault),
            )
            .on_conflict_do_nothing(index_elements=["topic", "name"])
            .returning(SubscriptionRow)
        )
        row = await self._session.scalar(added)
        if row is None:
            raise _there_already(subscription.topic, subscription.name)
        return subscription_of(row, self._vault)

    async def update(self, subscription: Subscription) -> Subscription:
        """Store the settings of the subscription.

        The subscription is found by its id. So a later subscription with the same name is not
        changed.

        Raises:
            TopicNotFoundError: The topic does not exist.
            SubscriptionNotFoundError: The subscription does not exist.
        """
        return await self._written(subscription, subscription_values(subscription, self._vault))

    async def set_state(self, subscription: Subscription) -> Subscription:
        """Store only the subscription's state, and the reason for the state. No secret is written.

        Raises:
            TopicNotFoundError: The topic does not exist.
            SubscriptionNotFoundError: The subscription does not exist.
        """
        reason = cast({"state_reason": subscription.state_reason}, JSONB)
        values = {
            "state": subscription.state.value,
            "settings": SubscriptionRow.settings.concat(reason),
        }
        return await self._written(subscription, values)

    async def set_dropped(self, subscription: Subscription) -> Subscription:
        """Store only the subscription's cancelled retransmissions. No secret is written.

        Raises:
            TopicNotFoundError: The topic does not exist.
            SubscriptionNotFoundError: The subscription does not exist.
        """
        dropped = cast({"dropped": list(subscription.dropped)}, JSONB)
        values = {"settings": SubscriptionRow.settings.concat(dropped)}
        return await self._written(subscription, values)

    async def delete(self, topic: str, name: str) -> Subscription:
        """Delete the subscription and the workers' reports on it; return the deleted subscription.

        The undelivered messages of the subscription are kept. They are stored by its id.

        Raises:
            TopicNotFoundError: The topic does not exist.
            SubscriptionNotFoundError: The subscription does not exist.
        """
        change = await self._feed.next_number()
        gone = await self.get(topic, name)
        await self._session.execute(delete(SubscriptionRow).where(SubscriptionRow.id == gone.id))
        await ConstraintRepository(self._session).delete(topic, name)
        for reported in (CursorRow, SubscriptionLoadRow):
            await self._session.execute(delete(reported).where(reported.subscription_id == gone.id))
        await self._feed.bury(SUBSCRIPTION, gone.id, change=change)
        return gone

    async def _written(self, subscription: Subscription, values: Mapping[str, Any]) -> Subscription:
        change = await self._feed.next_number()
        changed = (
            update(SubscriptionRow)
            .where(SubscriptionRow.id == subscription.id)
            .values(change=change, modified_at=func.clock_timestamp(), **values)
            .returning(SubscriptionRow)
            .execution_options(populate_existing=True)
        )
        row = await self._session.scalar(changed)
        if row is None:
            raise await self._missing(subscription.topic, subscription.name)
        return subscription_of(row, self._vault)

    async def _require_topic(self, topic: str) -> None:
        if not await self._session.scalar(select(exists().where(TopicRow.name == topic))):
            raise _no_topic(topic)

    async def _missing(
        self, topic: str, name: str
    ) -> TopicNotFoundError | SubscriptionNotFoundError:
        if not await self._session.scalar(select(exists().where(TopicRow.name == topic))):
            return _no_topic(topic)
        return SubscriptionNotFoundError(f"Subscription {name} of {topic} does not exist")


def _named(topic: str, name: str) -> Select[SubscriptionRow]:
    return select(SubscriptionRow).where(
        SubscriptionRow.topic == topic, SubscriptionRow.name == name
    )


def _there_already(topic: str, name: str) -> SubscriptionExistsError:
    return SubscriptionExistsError(f"Subscription {name} of {topic} already exists")


def _no_topic(topic: str) -> TopicNotFoundError:
    return TopicNotFoundError(f"Topic {topic} does not exist")
