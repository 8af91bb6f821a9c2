"""Stores topics."""

from sqlalchemy import delete, exists, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.catalogue.topic import Ack, Topic
from app.domain.errors import (
    GroupNotFoundError,
    TopicExistsError,
    TopicNotEmptyError,
    TopicNotFoundError,
)
from app.domain.paging import ALL_NAMES, NamePage
from app.domain.trace import TrackingMode
from app.storage.catalogue.changes import TOPIC, ChangeFeed
from app.storage.catalogue.rows import topic_of, topic_values
from app.storage.paging import paged
from app.storage.tables import GroupRow, SubscriptionRow, TopicRow


class TopicRepository:
    """Stores topics. Each change gets a number, which is returned with the topic."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session
        self._feed = ChangeFeed(session)

    async def get(self, name: str, *, for_update: bool = False) -> Topic:
        """Return the topic.

        With `for_update`, no other transaction can change any topic or subscription before this
        transaction ends.

        Raises:
            TopicNotFoundError: The topic does not exist.
        """
        if for_update:
            await self._feed.hold()
        row = await self._session.scalar(select(TopicRow).where(TopicRow.name == name))
        if row is None:
            raise _not_found(name)
        return topic_of(row)

    async def exists(self, name: str) -> bool:
        """Return whether a topic with that name exists."""
        found = await self._session.scalar(select(exists().where(TopicRow.name == name)))
        return bool(found)

    async def names(
        self, group: str | None = None, page: NamePage = ALL_NAMES, *, tracked: bool = False
    ) -> list[str]:
        """Return the names of topics on one page, in alphabetical order.

        By default, the page has all names. With `group`, only topics of this group are included; a
        group that does not exist has no topics. With `tracked`, only topics with tracing are
        included.
        """
        query = select(TopicRow.name)
        if tracked:
            query = query.where(TopicRow.settings["tracking"].astext != TrackingMode.OFF.value)
        if group is not None:
            query = query.where(TopicRow.group_name == group)
        return list(await self._session.scalars(paged(query, TopicRow.name, page)))

    async def acknowledged_by(self, ack: Ack) -> list[str]:
        """Return the names of topics with this kind of acknowledgement, in alphabetical order."""
        query = select(TopicRow.name).where(TopicRow.settings["ack"].astext == ack.value)
        return list(await self._session.scalars(query.order_by(TopicRow.name)))

    async def adopted(self) -> list[str]:
        """Return the names of adopted topics, in alphabetical order."""
        query = select(TopicRow.name).where(TopicRow.settings["adopted"].astext == "true")
        return list(await self._session.scalars(query.order_by(TopicRow.name)))

    async def all(self) -> list[Topic]:
        """Return all topics, ordered by name."""
        rows = await self._session.scalars(select(TopicRow).order_by(TopicRow.name))
        return [topic_of(row) for row in rows]

    async def add(self, topic: Topic) -> Topic:
        """Add the topic. This call sets the times and the change number of the topic.

        Raises:
            GroupNotFoundError: The topic's group does not exist.
            TopicExistsError: The topic already exists.
        """
        change = await self._feed.next_number()
        await self._hold_group(topic.group)
        values = {"name": topic.name, "group_name": topic.group, **topic_values(topic)}
        added = insert(TopicRow).values(change=change, **values).on_conflict_do_nothing()
        row = await self._session.scalar(added.returning(TopicRow))
        if row is None:
            raise TopicExistsError(f"Topic {topic.name} already exists")
        return topic_of(row)

    async def update(self, topic: Topic) -> Topic:
        """Store the settings of the topic.

        Raises:
            TopicNotFoundError: The topic does not exist.
        """
        change = await self._feed.next_number()
        changed = (
            update(TopicRow)
            .where(TopicRow.name == topic.name)
            .values(change=change, modified_at=func.clock_timestamp(), **topic_values(topic))
            .returning(TopicRow)
            .execution_options(populate_existing=True)
        )
        row = await self._session.scalar(changed)
        if row is None:
            raise _not_found(topic.name)
        return topic_of(row)

    async def delete(self, name: str) -> None:
        """Delete a topic without subscriptions.

        Raises:
            TopicNotFoundError: The topic does not exist.
            TopicNotEmptyError: The topic has subscriptions.
        """
        change = await self._feed.next_number()
        # Check here that the topic has no subscriptions. This transaction holds the lock of
        # changes, so no subscription can be added before the topic is deleted.
        if await self._session.scalar(select(exists().where(SubscriptionRow.topic == name))):
            raise TopicNotEmptyError(f"Topic {name} still has subscriptions")
        deleted = delete(TopicRow).where(TopicRow.name == name).returning(TopicRow.name)
        if await self._session.scalar(deleted) is None:
            raise _not_found(name)
        await self._feed.bury(TOPIC, name, change=change)

    async def _hold_group(self, name: str) -> None:
        held = select(GroupRow.name).where(GroupRow.name == name).with_for_update(key_share=True)
        if await self._session.scalar(held) is None:
            raise GroupNotFoundError(f"Group {name} does not exist")


def _not_found(name: str) -> TopicNotFoundError:
    return TopicNotFoundError(f"Topic {name} does not exist")
