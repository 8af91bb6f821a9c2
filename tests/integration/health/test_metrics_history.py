"""The history of metrics is what was counted, each message once, by minute, hour and day."""

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import text

from app.domain.catalogue.topic import Topic
from app.domain.message import NewRecord
from app.domain.metrics.steps import Step
from app.services.catalogue.topics import log_topic
from app.storage.catalogue.topics import TopicRepository
from app.storage.database import Database
from tests.integration.health.histories import DAY, HOUR, MINUTE, Histories, attempts, shown
from tests.integration.health.watched import Watched
from tests.integration.storage.builders import TOPIC, add_topic


@pytest.fixture
def histories(database: Database, watched: Watched) -> Histories:
    return Histories(database, watched)


async def test_each_minute_has_what_was_counted_in_it(histories: Histories) -> None:
    billing = await histories.watched.subscription()
    for delivered in (3, 3, 10):
        await histories.counted(billing, delivered=delivered, discarded=1, filtered=2)
        await histories.pass_by()
    found = await histories.of(billing)
    assert found.span.step is Step.MINUTE
    assert shown(found.points) == [("04 12:00", 3), ("04 12:02", 7)]
    assert shown(found.points, "discarded") == [("04 12:00", 1), ("04 12:02", 0)]
    assert shown(found.points, "filtered") == [("04 12:00", 2), ("04 12:02", 0)]


async def test_what_is_not_recorded_yet_is_in_the_current_minute(histories: Histories) -> None:
    billing = await histories.watched.subscription()
    await histories.counted(billing, delivered=3)
    histories.now += timedelta(seconds=25)
    found = await histories.of(billing)
    assert shown(found.points) == [("04 12:00", 3)]
    assert found.points[0].elapsed == timedelta(seconds=30)
    histories.now -= timedelta(seconds=25)
    await histories.pass_by()
    await histories.counted(billing, delivered=5)
    assert shown((await histories.of(billing)).points) == [("04 12:00", 3), ("04 12:01", 2)]


async def test_hours_and_days_add_up_what_the_minutes_had(histories: Histories) -> None:
    billing = await histories.watched.subscription()
    delivered = 0
    for span in (MINUTE, 59 * MINUTE, MINUTE, 5 * HOUR, 20 * HOUR, 3 * HOUR):
        delivered += 10
        await histories.counted(billing, delivered=delivered, end=delivered)
        await histories.pass_by(span)
    await histories.counted(billing, delivered=delivered + 5)
    since = {"since": histories.now - 4 * DAY}
    hours = (await histories.of(billing, step="hour", **since)).points
    assert shown(hours) == [
        ("04 12:00", 20), ("04 13:00", 10), ("04 18:00", 10), ("05 14:00", 10), ("05 17:00", 15)
    ]  # fmt: skip
    days = (await histories.of(billing, step="day", **since)).points
    assert shown(days) == [("04 00:00", 40), ("05 00:00", 25)]
    minutes = (await histories.of(billing, step="minute", since=histories.now - DAY)).points
    assert shown(minutes) == [
        ("04 18:00", 10), ("05 14:00", 10), ("05 17:00", 10), ("05 17:01", 5)
    ]  # fmt: skip


async def test_an_hour_that_becomes_a_row_while_it_is_read_counts_once(
    histories: Histories,
) -> None:
    billing = await histories.watched.subscription()
    await histories.counted(billing, delivered=3)
    await histories.pass_by()
    since = histories.now - DAY
    async with histories.database.transaction() as session:
        # As a reader sees it who read `metrics_recorded` before.
        before = await session.execute(
            text("SELECT hour, minutes FROM metrics_recorded WHERE subscription_id IS NOT NULL")
        )
        hour, minutes = before.one()
    await histories.pass_by(HOUR)
    await histories.counted(billing, delivered=5)
    await histories.pass_by()
    async with histories.database.transaction() as session:
        earlier = {"hour": hour, "minutes": minutes}
        update = "UPDATE metrics_recorded SET hour = :hour, minutes = :minutes, delivered = 3"
        await session.execute(text(f"{update} WHERE subscription_id IS NOT NULL"), earlier)
    for step in ("minute", "hour", "day"):
        points = (await histories.of(billing, step=step, since=since)).points
        assert sum(count for _, count in shown(points)) == 5, step


async def test_attempts_of_all_workers_are_recorded_once_however_often_reported(
    histories: Histories,
) -> None:
    billing = await histories.watched.subscription()
    first = attempts(within=(5, 0, 2), codes_5xx=2, retries=1)
    for _ in range(2):
        await histories.counted(billing, tried=first)
        await histories.counted(billing, worker="w-2", tried=attempts(within=(1,), timeouts=1))
        await histories.pass_by()
    more = attempts(within=(6, 0, 2), codes_5xx=3, retries=1)
    await histories.counted(billing, tried=more)
    await histories.pass_by()
    points = (await histories.of(billing)).points
    assert shown(points, "codes_5xx") == [("04 12:00", 2), ("04 12:02", 1)]
    assert shown(points, "timeouts") == [("04 12:00", 1), ("04 12:02", 0)]
    assert [each.sample.durations[:3] for each in points] == [(6, 0, 2), (1, 0, 0)]


async def test_a_worker_that_counts_from_zero_again_is_recorded_from_zero(
    histories: Histories,
) -> None:
    billing = await histories.watched.subscription()
    for since_ms, timeouts in ((1, 5), (2, 7), (2, 9)):
        await histories.counted(billing, tried=attempts(since_ms, timeouts=timeouts))
        await histories.pass_by()
    points = (await histories.of(billing)).points
    assert [count for _, count in shown(points, "timeouts")] == [5, 7, 2]


async def test_a_point_has_the_lag_and_the_rate_that_workers_allow(histories: Histories) -> None:
    billing = await histories.watched.subscription()
    await histories.watched.published(TOPIC, 9, ago=timedelta(0))
    ends = {place: each.end for place, each in (await histories.log.bounds(
        await histories.log.partitions(TOPIC))).items()}  # fmt: skip
    for partition in ends:
        await histories.counted(billing, partition=partition.index, tried=attempts())
    await histories.pass_by()
    [point] = (await histories.of(billing)).points
    assert point.sample.lag == 9
    assert point.sample.allowed == 1.5


async def test_nothing_is_written_while_nothing_changes(histories: Histories) -> None:
    billing = await histories.watched.subscription()
    await histories.counted(billing, delivered=3, tried=attempts(within=(3,)))
    await histories.pass_by()
    written = "SELECT sum(CAST(CAST(xmin AS text) AS bigint)) FROM metrics_recorded"
    before = await histories.count(written)
    for _ in range(3):
        await histories.counted(billing, delivered=3, tried=attempts(within=(3,)))
        await histories.pass_by()
    assert await histories.count(written) == before


async def test_a_topic_has_its_messages_and_what_its_subscriptions_did(
    histories: Histories,
) -> None:
    billing = await histories.watched.subscription()
    audit = await histories.watched.subscription("audit")
    await histories.watched.published(TOPIC, 4, ago=timedelta(0))
    await histories.counted(billing, delivered=3, tried=attempts(within=(3,)))
    await histories.counted(audit, delivered=4, tried=attempts(within=(0, 4)))
    await histories.pass_by()
    await histories.watched.published(TOPIC, 2, ago=timedelta(0))
    await histories.counted(billing, delivered=4)
    points = (await histories.of_topic()).points
    assert shown(points, "published") == [("04 12:00", 4), ("04 12:01", 2)]
    assert shown(points) == [("04 12:00", 7), ("04 12:01", 1)]
    assert points[0].sample.durations[:2] == (3, 4)
    await histories.watched.delete(audit)
    assert shown((await histories.of_topic()).points) == [("04 12:00", 7), ("04 12:01", 1)]


async def test_a_recreated_subscription_starts_without_a_history(histories: Histories) -> None:
    billing = await histories.watched.subscription()
    await histories.counted(billing, delivered=3)
    await histories.pass_by(HOUR)
    await histories.counted(billing, delivered=5)
    await histories.pass_by()
    await histories.watched.delete(billing)
    again = await histories.watched.add(replace(billing, id="s-again"))
    await histories.counted(again, delivered=1)
    await histories.pass_by()
    assert [count for _, count in shown((await histories.of(again)).points)] == [1]
    await histories.prune()
    assert await histories.count("SELECT count(*) FROM metrics_recorded") == 2
    assert await histories.count("SELECT count(DISTINCT source) FROM metrics_history") == 1


async def test_a_recreated_topic_starts_without_a_history(histories: Histories) -> None:
    async with histories.database.transaction() as session:
        await add_topic(session, "shop.gone")
    await histories.log.create_topic(log_topic(Topic(name="shop.gone")))
    await histories.log.append("shop.gone", [NewRecord(value=b"{}", timestamp_ms=1)])
    await histories.pass_by()
    async with histories.database.transaction() as session:
        await TopicRepository(session).delete("shop.gone")
        await add_topic(session, "shop.gone")
    await histories.log.delete_topic("shop.gone")
    assert not (await histories.of_topic("shop.gone")).points


async def test_messages_from_before_a_topic_was_adopted_are_not_of_its_history(
    histories: Histories,
) -> None:
    async with histories.database.transaction() as session:
        await add_topic(session, "shop.old", adopted=True)
    await histories.log.create_topic(log_topic(Topic(name="shop.old")))
    await histories.log.append("shop.old", [NewRecord(value=b"{}", timestamp_ms=1)])
    await histories.pass_by()
    await histories.log.append("shop.old", [NewRecord(value=b"{}", timestamp_ms=1)])
    await histories.pass_by()
    assert shown((await histories.of_topic("shop.old")).points, "published") == [("04 12:01", 1)]


async def test_only_one_process_records(histories: Histories) -> None:
    billing = await histories.watched.subscription()
    await histories.pass_by(recorder="first")
    await histories.counted(billing, delivered=3)
    await histories.pass_by(recorder="second")
    assert await histories.count("SELECT count(subscription_id) FROM metrics_recorded") == 0
    await histories.pass_by(recorder="first")
    assert shown((await histories.of(billing)).points) == [("04 12:02", 3)]


async def test_another_process_continues_where_one_was_killed(histories: Histories) -> None:
    billing = await histories.watched.subscription()
    await histories.counted(billing, delivered=3, tried=attempts(within=(3,)))
    await histories.pass_by(recorder="killed")
    await histories.counted(billing, delivered=5, tried=attempts(within=(5,)))
    async with histories.database.transaction() as session:
        await session.execute(text("UPDATE leases SET until = now() - interval '1 s'"))
    await histories.pass_by(recorder="next")
    points = (await histories.of(billing)).points
    assert shown(points) == [("04 12:00", 3), ("04 12:01", 2)]
    assert [each.sample.attempts for each in points] == [3, 2]


async def test_minutes_are_dropped_after_two_days_and_hours_after_ninety(
    histories: Histories,
) -> None:
    billing = await histories.watched.subscription()
    ago = histories.now
    for delivered in range(1, 25):
        await histories.counted(billing, delivered=delivered)
        await histories.pass_by(5 * DAY)
        await histories.prune()
    days = (await histories.of(billing, since=ago)).points
    # A day of each five has one. What is older goes with the last of its week.
    assert 90 // 5 <= len(days) <= 97 // 5 + 1
    # The subscription and its topic have a row each.
    assert await histories.count("SELECT count(*) FROM metrics_history WHERE step = 1") <= 2 * 3
    assert await histories.count(
        "SELECT count(*) FROM pg_inherits WHERE inhparent = 'metrics_history'::regclass"
    ) <= 4 + 15  # fmt: skip
