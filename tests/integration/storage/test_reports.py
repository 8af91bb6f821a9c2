from datetime import UTC, datetime, timedelta

from sqlalchemy import func, select, text, update

from app.storage.database import Database
from app.storage.health.statuses import LOAD_COLUMNS, ROWS_MAX, StatusRepository
from app.storage.health.workers import WorkerRepository
from app.storage.notices import APPLIED, listen
from app.storage.tables import CursorRow, SubscriptionLoadRow, WorkerRow
from tests.integration.storage.builders import (
    a_cursor,
    a_failed_attempt,
    a_load,
    a_worker,
    add_subscription,
    beat_in,
)

HOUR = timedelta(hours=1)
SOON = timedelta(milliseconds=100)
LATE = timedelta(seconds=60)


async def test_a_worker_is_alive_while_it_was_seen_by_the_database_lately(
    database: Database,
) -> None:
    async with database.transaction() as session:
        workers = WorkerRepository(session)
        for worker_id in ("w-2", "w-1", "w-gone"):
            await beat_in(session, a_worker(worker_id))
        await session.execute(
            text("UPDATE workers SET seen_at = now() - interval '9 s' WHERE id = 'w-gone'")
        )
        live = await workers.live(timedelta(seconds=5))
    assert [worker.id for worker in live] == ["w-1", "w-2"]
    assert abs(live[0].seen_at - datetime.now(UTC)) < timedelta(minutes=1)
    assert live[0].pid == a_worker().pid


async def test_a_worker_is_removed_when_it_ends(database: Database) -> None:
    async with database.transaction() as session:
        workers = WorkerRepository(session)
        await beat_in(session, a_worker())
        await workers.remove("w-1")
        await workers.remove("w-1")
        assert await workers.live(HOUR) == []


async def test_who_waits_for_a_change_to_be_applied_is_woken_when_a_worker_gets_further(
    database: Database, postgres_url: str
) -> None:
    async with listen(postgres_url, [APPLIED]) as notices:
        for applied, woken in ((0, {APPLIED}), (0, set()), (5, {APPLIED}), (5, set())):
            async with database.transaction() as session:
                await beat_in(session, a_worker(applied=applied))
            assert await notices.wait(LATE if woken else SOON) == woken


async def test_a_change_of_another_server_does_not_count_as_applied(database: Database) -> None:
    """A replica that has become the server gives the number to another change."""
    async with database.transaction() as session:
        workers = WorkerRepository(session)
        for server in (datetime(2020, 1, 1, tzinfo=UTC), None):
            await workers.beat(a_worker(applied=7), server=server)
            (live,) = await workers.live(HOUR)
            assert (live.applied_change, await workers.applied()) == (0, 0)


async def test_reports_replace_those_before(database: Database) -> None:
    subscription = await add_subscription(database)
    for offset in (10, 15):
        async with database.transaction() as session:
            await StatusRepository(session).write(
                [a_cursor(subscription.id, 1, offset=offset), a_cursor(subscription.id, 0)],
                [a_load(subscription.id, in_flight=offset)],
            )
    async with database.transaction() as session:
        statuses = StatusRepository(session)
        assert await statuses.cursors(subscription.id) == [
            a_cursor(subscription.id, 0),
            a_cursor(subscription.id, 1, offset=15),
        ]
        assert await statuses.loads(subscription.id, HOUR) == [
            a_load(subscription.id, in_flight=15, failing=())
        ]
        assert await statuses.failing(subscription.id, HOUR) == [a_failed_attempt()]
        (row,) = await session.execute(select(*LOAD_COLUMNS))
        assert "failing" not in row.counts


async def test_failures_of_hostile_subscribers_and_producers_can_be_reported(
    database: Database,
) -> None:
    subscription = await add_subscription(database)
    hostile = a_failed_attempt(message_id="a\0", reason="b\ud800", answer="c\0")
    async with database.transaction() as session:
        statuses = StatusRepository(session)
        await statuses.write([], [a_load(subscription.id, failing=(hostile,))])
        [failed] = await statuses.failing(subscription.id, HOUR)
    assert (failed.message_id, failed.reason, failed.answer) == ("a\ufffd", "b?", "c\ufffd")


async def test_lifetime_counts_never_go_back(database: Database) -> None:
    subscription = await add_subscription(database)
    async with database.transaction() as session:
        statuses = StatusRepository(session)
        await statuses.write([a_cursor(subscription.id, delivered=9, volume=5, offset=50)], [])
        await statuses.write([a_cursor(subscription.id, discarded=9, volume=4, offset=40)], [])
        assert await statuses.cursors(subscription.id) == [
            a_cursor(subscription.id, delivered=9, discarded=9, volume=5, offset=40)
        ]


async def test_reports_of_deleted_subscriptions_are_dropped_and_the_others_kept(
    database: Database,
) -> None:
    subscription = await add_subscription(database)
    async with database.transaction() as session:
        statuses = StatusRepository(session)
        await statuses.write(
            [a_cursor("gone"), a_cursor(subscription.id)], [a_load("gone"), a_load(subscription.id)]
        )
        assert await statuses.cursors("gone") == []
        assert await statuses.loads("gone", HOUR) == []
        assert len(await statuses.cursors(subscription.id)) == 1
        assert len(await statuses.loads(subscription.id, HOUR)) == 1


async def test_the_loads_of_a_topic_are_those_of_all_its_subscriptions(
    database: Database,
) -> None:
    first = await add_subscription(database)
    second = await add_subscription(database, "second")
    async with database.transaction() as session:
        statuses = StatusRepository(session)
        await statuses.write([], [a_load(first.id), a_load(second.id)])
        of_topic = await statuses.loads_of_topic(first.topic, HOUR)
        assert {load.subscription_id for load in of_topic} == {first.id, second.id}
        assert await statuses.loads_of_topic("an.other", HOUR) == []


async def test_of_two_reports_of_one_cursor_the_last_counts(database: Database) -> None:
    subscription = await add_subscription(database)
    async with database.transaction() as session:
        statuses = StatusRepository(session)
        await statuses.write([a_cursor(subscription.id), a_cursor(subscription.id, end=99)], [])
        assert [cursor.end for cursor in await statuses.cursors(subscription.id)] == [99]


async def test_more_reports_than_fit_one_statement_are_all_written(database: Database) -> None:
    subscription = await add_subscription(database)
    count = ROWS_MAX + 1
    async with database.transaction() as session:
        statuses = StatusRepository(session)
        await statuses.write([a_cursor(subscription.id, index) for index in range(count)], [])
        assert len(await statuses.cursors(subscription.id)) == count


async def test_writing_nothing_is_fine(database: Database) -> None:
    async with database.transaction() as session:
        await StatusRepository(session).write([], [])


async def test_only_loads_reported_lately_count(database: Database) -> None:
    subscription = await add_subscription(database)
    async with database.transaction() as session:
        statuses = StatusRepository(session)
        await statuses.write([], [a_load(subscription.id, "w-2"), a_load(subscription.id, "w-1")])
        await session.execute(
            text(
                "UPDATE subscription_loads SET seen_at = now() - interval '1 min'"
                " WHERE worker_id = 'w-2'"
            )
        )
        lately = await statuses.loads(subscription.id, timedelta(seconds=5))
        assert [load.worker_id for load in lately] == ["w-1"]


async def test_pruning_drops_what_nobody_reports_and_keeps_positions(database: Database) -> None:
    subscription = await add_subscription(database)
    async with database.transaction() as session:
        statuses = StatusRepository(session)
        await beat_in(session, a_worker())
        await statuses.write([a_cursor(subscription.id)], [a_load(subscription.id)])
        yesterday = func.now() - timedelta(days=1)
        for table in (WorkerRow, CursorRow, SubscriptionLoadRow):
            await session.execute(update(table).values(seen_at=yesterday))
        # A report that came in while its subscription was being deleted.
        await session.execute(
            text(
                "INSERT INTO cursors SELECT 'gone', 0, topic, worker_id, 0, 0, 0, 0, 0 FROM cursors"
            )
        )
        await statuses.prune(HOUR)
        assert await statuses.loads(subscription.id, timedelta(days=2)) == []
        assert await WorkerRepository(session).live(timedelta(days=2)) == []
        assert len(await statuses.cursors(subscription.id)) == 1
        assert await statuses.cursors("gone") == []
