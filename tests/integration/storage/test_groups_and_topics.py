from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from app.domain.catalogue.topic import Ack, Topic
from app.domain.errors import (
    GroupExistsError,
    GroupNotEmptyError,
    GroupNotFoundError,
    TopicExistsError,
    TopicNotEmptyError,
    TopicNotFoundError,
)
from app.domain.owner import Owner
from app.storage.catalogue.groups import GroupRepository
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.catalogue.topics import TopicRepository
from app.storage.database import Database
from tests.integration.storage.builders import GROUP, TOPIC, a_subscription, add_topic


async def test_groups_are_listed_by_name(database: Database) -> None:
    async with database.transaction() as session:
        groups = GroupRepository(session)
        for name in ("b", "a"):
            await groups.add(name)
        assert await groups.names() == ["a", "b"]
        assert await groups.exists("a")
        assert not await groups.exists("c")


async def test_a_group_is_added_once(database: Database) -> None:
    async with database.transaction() as session:
        await GroupRepository(session).add(GROUP)
        with pytest.raises(GroupExistsError):
            await GroupRepository(session).add(GROUP)
        # The transaction is still good for other work.
        assert await GroupRepository(session).names() == [GROUP]


async def test_only_an_existing_empty_group_can_be_deleted(database: Database) -> None:
    async with database.transaction() as session:
        groups = GroupRepository(session)
        await add_topic(session)
        with pytest.raises(GroupNotFoundError):
            await groups.delete("none")
        with pytest.raises(GroupNotEmptyError):
            await groups.delete(GROUP)
        await TopicRepository(session).delete(TOPIC)
        await groups.delete(GROUP)
        assert await groups.names() == []


async def test_a_topic_is_kept_with_all_its_settings(database: Database) -> None:
    topic = Topic(
        name=TOPIC,
        owner=Owner(source="LDAP", id="team"),
        description="what was ordered",
        partitions=3,
        retention=timedelta(hours=7, microseconds=1),
        ack=Ack.ALL,
        message_size_max=2048,
    )
    async with database.transaction() as session:
        await GroupRepository(session).add(GROUP)
        added = await TopicRepository(session).add(topic)
    assert added.created_at is not None
    assert abs(added.created_at - datetime.now(UTC)) < timedelta(minutes=1)
    assert added.modified_at == added.created_at
    assert added.change > 0
    assert topic == replace(added, created_at=None, modified_at=None, change=0)
    async with database.transaction() as session:
        assert await TopicRepository(session).get(TOPIC) == added


async def test_a_topic_needs_its_group(database: Database) -> None:
    async with database.transaction() as session:
        with pytest.raises(GroupNotFoundError):
            await TopicRepository(session).add(Topic(name=TOPIC))


async def test_a_topic_is_added_once(database: Database) -> None:
    async with database.transaction() as session:
        await add_topic(session)
        with pytest.raises(TopicExistsError):
            await TopicRepository(session).add(Topic(name=TOPIC))


async def test_changing_a_topic_keeps_its_creation_and_raises_its_change(
    database: Database,
) -> None:
    async with database.transaction() as session:
        added = await add_topic(session)
    async with database.transaction() as session:
        topics = TopicRepository(session)
        known = await topics.get(TOPIC, for_update=True)
        changed = await topics.update(replace(known, description="new", partitions=9))
        assert await topics.get(TOPIC) == changed
    assert (changed.description, changed.partitions) == ("new", 9)
    assert changed.created_at == added.created_at
    assert added.modified_at is not None
    assert changed.modified_at is not None
    assert changed.modified_at > added.modified_at
    assert changed.change > added.change


async def test_a_topic_that_does_not_exist_can_be_neither_read_changed_nor_deleted(
    database: Database,
) -> None:
    async with database.transaction() as session:
        topics = TopicRepository(session)
        with pytest.raises(TopicNotFoundError):
            await topics.get(TOPIC)
        with pytest.raises(TopicNotFoundError):
            await topics.update(Topic(name=TOPIC))
        with pytest.raises(TopicNotFoundError):
            await topics.delete(TOPIC)


async def test_a_topic_with_subscriptions_is_not_deleted(database: Database) -> None:
    async with database.transaction() as session:
        await add_topic(session)
        await SubscriptionRepository(session).add(a_subscription())
        with pytest.raises(TopicNotEmptyError):
            await TopicRepository(session).delete(TOPIC)


async def test_topics_are_listed_by_group_and_name(database: Database) -> None:
    async with database.transaction() as session:
        for name in ("b.two", "b.one", "a.b.one"):
            await add_topic(session, name)
        topics = TopicRepository(session)
        assert await topics.names() == ["a.b.one", "b.one", "b.two"]
        assert await topics.names("b") == ["b.one", "b.two"]
        assert await topics.names("none") == []
        assert [topic.name for topic in await topics.all()] == await topics.names()


async def test_settings_of_a_newer_version_are_passed_over_and_missing_ones_have_defaults(
    database: Database,
) -> None:
    async with database.transaction() as session:
        await add_topic(session)
        await session.execute(text("""UPDATE topics SET settings = '{"colour": "red"}'"""))
    async with database.transaction() as session:
        topic = await TopicRepository(session).get(TOPIC)
    assert topic.retention == Topic(name=TOPIC).retention


async def test_nothing_of_a_transaction_that_fails_is_kept(database: Database) -> None:
    async def fail() -> None:
        async with database.transaction() as session:
            await add_topic(session)
            await GroupRepository(session).add(GROUP)

    with pytest.raises(GroupExistsError):
        await fail()
    async with database.transaction() as session:
        assert await GroupRepository(session).names() == []
