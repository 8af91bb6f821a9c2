import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from sqlalchemy import text

from app.domain.catalogue.changes import NO_CHANGE, Changes, LastChange
from app.storage.catalogue.changes import ChangeFeed, changes_since
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.catalogue.topics import TopicRepository
from app.storage.database import Database
from app.storage.notices import CHANGES, listen
from tests.integration.storage.builders import (
    TOPIC,
    a_subscription,
    add_subscription,
    add_topic,
    changes_after,
)


async def test_nothing_has_changed_at_first(database: Database) -> None:
    assert await changes_after(database, 0) == Changes(number=0)


async def test_a_reader_that_knows_nothing_gets_everything(database: Database) -> None:
    subscription = await add_subscription(database)
    changes = await changes_after(database, 0)
    assert [topic.name for topic in changes.topics] == [TOPIC]
    assert changes.subscriptions == (subscription,)
    assert changes.number == subscription.change


async def test_a_reader_gets_what_changed_after_what_it_knows(database: Database) -> None:
    first, second = [await add_subscription(database, name) for name in ("first", "second")]
    known = await changes_after(database, 0)
    assert await changes_after(database, known.number) == Changes(number=known.number)
    async with database.transaction() as session:
        changed = await SubscriptionRepository(session).update(replace(first, description="new"))
    assert await changes_after(database, known.number) == Changes(
        number=changed.change, subscriptions=(changed,)
    )
    assert second.change < changed.change


async def test_who_knows_the_changes_of_another_server_gets_everything_there_is(
    database: Database,
) -> None:
    """A replica that has become the server may lack the last changes."""
    kept = await add_subscription(database)
    everything = await changes_since(database, NO_CHANGE)
    assert everything.is_complete
    assert everything.subscriptions == (kept,)
    for number in (0, kept.change, 99):
        other = LastChange(number, datetime(2020, 1, 1, tzinfo=UTC))
        assert await changes_since(database, other) == everything
    assert await changes_since(database, everything.last) == Changes(number=kept.change)


async def test_who_knows_all_changes_reads_nothing_but_their_number(database: Database) -> None:
    known = await add_subscription(database)
    async with database.transaction() as other:
        # Whoever reads one of these tables now would wait until its statement is cancelled.
        locked = "LOCK TABLE topics, subscriptions, tombstones IN ACCESS EXCLUSIVE MODE"
        await other.execute(text(locked))
        assert await changes_after(database, known.change) == Changes(number=known.change)


async def test_what_is_read_in_pages_is_what_is_read_at_once(database: Database) -> None:
    added = [await add_subscription(database, f"s{number}") for number in range(5)]
    async with database.transaction() as session:
        changed = await SubscriptionRepository(session).update(replace(added[0], description="new"))
    for page in (1, 2, 5, 6):
        changes = await changes_after(database, 0, page=page)
        assert changes.subscriptions == (*added[1:], changed)
        assert changes == await changes_after(database, 0)
    assert (await changes_after(database, added[3].change)).subscriptions == (added[4], changed)


async def test_a_reader_is_told_of_deletions(database: Database) -> None:
    subscription = await add_subscription(database)
    known = await changes_after(database, 0)
    async with database.transaction() as session:
        await SubscriptionRepository(session).delete(TOPIC, subscription.name)
        await TopicRepository(session).delete(TOPIC)
    changes = await changes_after(database, known.number)
    assert changes.deleted_topics == {TOPIC}
    assert changes.deleted_subscription_ids == {subscription.id}
    # Who knew nothing has nothing to forget.
    assert await changes_after(database, 0) == Changes(number=changes.number)


async def test_a_topic_made_again_is_not_deleted(database: Database) -> None:
    async with database.transaction() as session:
        known = await add_topic(session)
    async with database.transaction() as session:
        await TopicRepository(session).delete(TOPIC)
        await add_topic(session)
    changes = await changes_after(database, known.change)
    assert changes.deleted_topics == frozenset()
    assert [topic.name for topic in changes.topics] == [TOPIC]


async def test_a_number_is_given_only_when_the_one_before_is_committed(database: Database) -> None:
    async with database.transaction() as session:
        await add_topic(session)
    known = (await changes_after(database, 0)).number
    first_has_number, first_may_commit = asyncio.Event(), asyncio.Event()

    async def first() -> None:
        async with database.transaction() as session:
            await SubscriptionRepository(session).add(a_subscription("first"))
            first_has_number.set()
            await first_may_commit.wait()

    async def second() -> None:
        await first_has_number.wait()
        async with database.transaction() as session:
            await SubscriptionRepository(session).add(a_subscription("second"))

    async with asyncio.TaskGroup() as group:
        group.create_task(first())
        late = group.create_task(second())
        await first_has_number.wait()
        # The second would be done in milliseconds, were it not made to wait its turn.
        done, _ = await asyncio.wait([late], timeout=0.3)
        assert not done
        assert await changes_after(database, known) == Changes(number=known)
        first_may_commit.set()
    changes = await changes_after(database, known)
    assert [found.name for found in changes.subscriptions] == ["first", "second"]


async def test_a_reader_that_follows_misses_nothing_that_many_writers_do(
    database: Database,
) -> None:
    async with database.transaction() as session:
        await add_topic(session)
    written = [f"s{number}" for number in range(40)]
    seen: set[str] = set()
    # No more than there are connections: each has the one before it to wait for.
    turns = asyncio.Semaphore(8)

    async def write(name: str) -> None:
        async with turns, database.transaction() as session:
            await SubscriptionRepository(session).add(a_subscription(name))

    async def follow() -> None:
        number = 0
        while len(seen) < len(written):
            changes = await changes_after(database, number)
            assert changes.number >= number
            number = changes.number
            seen.update(found.name for found in changes.subscriptions)

    async with asyncio.timeout(90), asyncio.TaskGroup() as group:
        group.create_task(follow())
        for name in written:
            group.create_task(write(name))
    assert seen == set(written)


async def test_a_change_that_is_rolled_back_leaves_no_hole(database: Database) -> None:
    async with database.transaction() as session:
        await ChangeFeed(session).next_number()
        await session.rollback()
    async with database.transaction() as session:
        assert await ChangeFeed(session).next_number() == 1
    async with database.transaction() as session:
        assert await ChangeFeed(session).current() == 1


async def test_readers_are_woken_when_a_change_is_committed(
    database: Database, postgres_url: str
) -> None:
    async with listen(postgres_url, [CHANGES]) as notices:
        async with database.transaction() as session:
            await add_topic(session)
            assert await notices.wait(timedelta(milliseconds=100)) == frozenset()
        assert await notices.wait(timedelta(seconds=60)) == {CHANGES}
