"""Traces in the database: each entry once, by day, within their time and their room."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Engine, delete, event, insert, select, text

from app.domain.errors import SubscriptionNotFoundError, TopicNotFoundError
from app.domain.message import Partition, Record
from app.domain.trace import TraceEntry, TraceSource, TraceStatus, traced_id
from app.postgres.urls import libpq_url
from app.services.inspection.traces import TraceService
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database, Reading, open_database
from app.storage.runtime.recorder_positions import RecorderPositions
from app.storage.spark.retransmission_requests import first_traced
from app.storage.spark.retransmission_rows import finished_positions
from app.storage.tables import TRACE_PACKS, TRACE_SOURCES, TRACES, trace_key
from app.storage.traces.days import TraceDay, TraceDays, outdated, over_budget, wanted_days
from app.storage.traces.lookup import (
    LOSSES_AT_ONCE,
    PACKS_AT_ONCE,
    TraceLookup,
    TraceQuestion,
)
from app.storage.traces.recording import TraceRepository
from app.tracing.packs import Pack, TraceRow, packed, unpacked
from tests.integration.storage.builders import a_subscription, add_topic
from tests.servers.postgres import PostgresServer
from workers.recorder.traces import DatabaseTraces

STREAM = Partition("angelia.traces", 1)
BILLING = TraceSource(topic="shop.orders", subscription_id="s-1", subscription="billing")
AUDIT = TraceSource(topic="shop.orders", subscription_id="s-2", subscription="audit")
PUBLISHED = TraceSource(topic="shop.orders")
DAY = timedelta(days=1)
GIB = 1 << 30


async def test_what_is_recorded_stays_so_when_the_server_dies_at_once(
    postgres_server: PostgresServer,
) -> None:
    """The recorder goes on behind it, and would not record it again."""
    async with open_database(postgres_server.url) as database:
        store = DatabaseTraces(database, kept=7 * DAY, bytes_max=GIB)
        await store.positions()
        for number in range(1, 4):
            await store.record([a_pack(a_row(f"m-{number}"))], STREAM, number)
        postgres_server.kill()
    postgres_server.start()
    async with open_database(postgres_server.url) as database:
        entries = [len(await found(database, f"m-{number}")) for number in range(1, 4)]
        async with database.transaction() as session:
            positions = await RecorderPositions(session).all()
    assert (entries, positions[STREAM]) == ([1, 1, 1], 3)


async def test_what_waits_in_a_worker_is_said_to_be_missing_until_it_is_taken_back(
    database: Database,
) -> None:
    store = DatabaseTraces(database, kept=7 * DAY, bytes_max=GIB)

    for first, second in ((5, 0), (9, 2), (0, 2), (0, 0)):
        await store.waiting("w-1", first)
        await store.waiting("w-2", second)
        assert await losses(database) == first + second


def now() -> datetime:
    return datetime.now(UTC).replace(microsecond=123_456)


def ago(minutes: float) -> datetime:
    return now() - timedelta(minutes=minutes)


def a_row(message_id: str = "m", source: int = 0, **settings: Any) -> TraceRow:  # noqa: ANN401 - fields of the value
    row = TraceRow(
        source=source,
        at=micros(now()),
        status="SUCCESS",
        message_id=message_id,
        partition=3,
        offset=4_000_000_000,
        attempt=1,
        status_code=200,
        reason="",
        queued=1_500,
        waited=250,
        connect=None,
        took=2_000,
        address="127.0.0.1:80",
        batch_id="",
        retransmission="",
    )
    return row._replace(**settings)


def micros(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def a_pack(*rows: TraceRow, lost: int = 0) -> Pack:
    return Pack(
        "w-1",
        micros(now()),
        lost,
        "why" if lost else "",
        {0: BILLING, 1: AUDIT, 2: PUBLISHED},
        rows,
    )


def some_ids() -> Sequence[str]:
    """So many that they take room."""
    return [uuid4().hex for _ in range(2_000)]


def a_store(database: Database, *, days: int = 7, bytes_max: int = GIB) -> DatabaseTraces:
    return DatabaseTraces(database, kept=timedelta(days=days), bytes_max=bytes_max)


async def stored(database: Database, *packs: Pack, **settings: Any) -> DatabaseTraces:  # noqa: ANN401 - of `a_store`
    store = a_store(database, **settings)
    await store.positions()
    await store.record(packs, STREAM, len(packs))
    return store


async def found(
    database: Database,
    message_id: str = "m",
    *,
    topic: str | None = None,
    subscription: str | None = None,
    limit: int = 100,
) -> Sequence[TraceEntry]:
    asked = TraceQuestion(message_id=message_id, topic=topic, subscription=subscription)

    async def ask(reading: Reading) -> Sequence[TraceEntry]:
        lookup = TraceLookup(reading, asked, limit=limit)
        return await lookup.entries(await lookup.known())

    return await database.read(ask)


async def losses(database: Database, since: datetime | None = None) -> int:
    asked = TraceQuestion(message_id="none")

    async def ask(reading: Reading) -> int:
        lookup = TraceLookup(reading, asked, limit=1)
        return await lookup.lost(await lookup.known(), since or now() - 30 * DAY, now() + DAY)

    return await database.read(ask)


async def subscribed(database: Database) -> None:
    """Let there be the subscriptions whose entries these are."""
    async with database.transaction() as session:
        await add_topic(session, "shop.orders")
        for each in (BILLING, AUDIT):
            its = a_subscription(each.subscription, id=each.subscription_id)
            await SubscriptionRepository(session).add(its)


async def days_there(database: Database) -> Sequence[date]:
    async with database.transaction() as session:
        return [each.day for each in await TraceDays(session).all()]


async def test_an_entry_comes_back_as_it_was(database: Database) -> None:
    row = a_row(
        "id\N{SNOWMAN}", reason="no\tway\\", status="FAILED", status_code=None, batch_id="b",
        retransmission="r", connect=7,
    )  # fmt: skip
    await stored(database, a_pack(row))
    (entry,) = await found(database, "id\N{SNOWMAN}")
    assert entry == TraceEntry(
        source=BILLING,
        message_id="id\N{SNOWMAN}",
        at=datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=row.at),
        status=TraceStatus.FAILED,
        partition=3,
        offset=4_000_000_000,
        attempt=1,
        status_code=None,
        reason="no\tway\\",
        queued=timedelta(milliseconds=1.5),
        waited=timedelta(milliseconds=0.25),
        connect=timedelta(microseconds=7),
        took=timedelta(milliseconds=2),
        worker="w-1",
        address="127.0.0.1:80",
        batch_id="b",
        retransmission="r",
    )


async def test_what_postgres_cannot_hold_stops_nothing(database: Database) -> None:
    strange = "\0" + "\U0001f600" * 400
    message_id = traced_id(strange.encode())
    await stored(database, a_pack(a_row(message_id, reason="a\0b\ud800c")))
    (entry,) = await found(database, message_id)
    assert entry.reason == "a\0b?c"


async def test_a_pack_is_stored_once_whoever_stores_it(database: Database) -> None:
    store = await stored(database, a_pack(a_row()))
    other = a_store(database)
    await other.positions()
    await asyncio.gather(*(each.record([a_pack(a_row())], STREAM, 1) for each in (store, other)))
    assert len(await found(database)) == 1
    async with database.transaction() as session:
        assert await RecorderPositions(session).all() == {STREAM: 1}


async def test_no_pack_is_stored_behind_packs_that_the_database_has_lost(
    database: Database,
) -> None:
    """Then the database may also have lost the ids of sources. They are looked up again."""
    store = await stored(database, a_pack(a_row()))
    async with database.transaction() as session:
        await session.execute(delete(TRACE_SOURCES))
    assert await store.record([a_pack(a_row("m-2"))], STREAM, 3, start=2) == 1
    assert await found(database, "m-2") == []
    assert await store.record([a_pack(a_row("m-2"))], STREAM, 3, start=1) is None
    assert len(await found(database, "m-2")) == 1
    async with database.transaction() as session:
        topics = list(await session.scalars(select(TRACE_SOURCES.c.topic)))
    assert topics == ["shop.orders"] * 3


async def test_entries_are_found_by_topic_and_subscription(database: Database) -> None:
    await subscribed(database)
    async with database.transaction() as session:
        await add_topic(session, "shop.others")
    rows = [a_row(source=source, attempt=source) for source in range(3)]
    await stored(database, a_pack(*rows, a_row("other")))
    everywhere = {each.source for each in await found(database, topic="shop.orders")}
    assert everywhere == {BILLING, AUDIT, PUBLISHED}
    one = await found(database, topic="shop.orders", subscription="audit")
    assert {each.source for each in one} == {AUDIT, PUBLISHED}
    assert await found(database, topic="shop.others") == []
    assert await found(database, "none") == []


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"topic": "shop.none"}, TopicNotFoundError),
        ({"topic": "shop.none", "subscription": "audit"}, TopicNotFoundError),
        ({"topic": "shop.orders", "subscription": "none"}, SubscriptionNotFoundError),
    ],
)
async def test_who_asks_for_what_is_not_there_is_told_what_it_is(
    database: Database, asked: dict[str, Any], error: type[Exception]
) -> None:
    await subscribed(database)
    with pytest.raises(error, match="none"):
        await found(database, **asked)


async def test_to_look_a_message_up_takes_one_statement(database: Database) -> None:
    await subscribed(database)
    await stored(database, a_pack(a_row(), lost=3))
    statements = list[str]()

    def note(*execution: Any) -> None:  # noqa: ANN401 - SQLAlchemy's arguments
        statements.append(execution[2])

    await TraceService(database).of_message("m")
    event.listen(Engine, "before_cursor_execute", note)
    try:
        trace = await TraceService(database).of_message(
            "m", topic="shop.orders", subscription="billing"
        )
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    assert (len(trace.entries), trace.lost, len(statements)) == (2, 3, 1)


async def test_losses_are_all_counted_however_often_some_were_lost(database: Database) -> None:
    times = 2 * LOSSES_AT_ONCE
    packs = [a_pack(lost=1)._replace(at=micros(ago(each))) for each in range(times)]
    await stored(database, *packs)
    assert await losses(database) == times
    assert await losses(database, ago(9.5)) == 10


async def test_entries_of_days_that_are_not_kept_are_counted_among_the_losses(
    database: Database,
) -> None:
    old, ahead = micros(now() - 9 * DAY), micros(now() + 9 * DAY)
    late = micros(now() - 6 * DAY)
    await stored(database, a_pack(a_row(at=old), a_row(at=late), a_row(at=ahead), lost=5))
    assert len(await found(database)) == 1
    assert await losses(database) == 7


@pytest.mark.parametrize(
    "odd",
    [
        {"status": "UNKNOWN"},
        {"offset": 1 << 70},
        {"source": 9},
        {"message_id": None},
        {"queued": "long"},
    ],
)
async def test_a_pack_of_an_unknown_form_costs_its_entries_and_no_others(
    database: Database, odd: dict[str, Any]
) -> None:
    await stored(
        database, a_pack(a_row(**{"message_id": "odd", **odd}), a_row("odd")), a_pack(a_row())
    )
    assert await found(database, "odd") == []
    assert len(await found(database)) == 1
    assert await losses(database) == 2


async def test_a_row_of_another_length_costs_its_pack(database: Database) -> None:
    short = Pack("w-1", micros(now()), 0, "", {0: BILLING}, [tuple(a_row())[:9]])
    await stored(database, short, a_pack(a_row()))
    assert len(await found(database)) == 1
    assert await losses(database) == 1


async def test_without_room_for_today_nothing_is_stored_and_all_is_counted(
    database: Database,
) -> None:
    store = await stored(database, a_pack(a_row("kept")), bytes_max=1)
    await store.record([a_pack(a_row(), a_row())], STREAM, 2)
    assert await found(database) == []
    assert await losses(database) == 3
    async with database.transaction() as session:
        assert (await RecorderPositions(session).all())[STREAM] == 2


async def test_days_are_made_ahead_and_dropped_when_they_are_too_old(database: Database) -> None:
    today = now().date()
    await a_store(database, days=5).keep()
    assert await days_there(database) == [today + n * DAY for n in range(-5, 3)]
    await stored(database, a_pack(a_row(at=micros(now() - 4 * DAY)), a_row(at=micros(now()))))
    assert len(await found(database)) == 2
    await a_store(database, days=2).keep()
    there = await days_there(database)
    assert there[0] == today - 2 * DAY
    assert len(await found(database)) == 1


async def test_the_oldest_day_goes_first_when_there_is_no_room(database: Database) -> None:
    store = await stored(
        database,
        *(
            a_pack(*(a_row(each, at=micros(now() - age * DAY)) for each in [f"{age}", *some_ids()]))
            for age in (3, 2, 0)
        ),
    )
    async with database.transaction() as session:
        sizes = {each.day: each.size for each in await TraceDays(session).all()}
    room = sum(sizes.values()) - sizes[now().date() - 3 * DAY] // 2
    await a_store(database, bytes_max=room).keep()
    assert await found(database, "3") == []
    assert len(await found(database, "2")) == 1
    assert len(await found(database, "0")) == 1
    await store.record([a_pack(a_row("late", at=micros(now() - 3 * DAY)))], STREAM, 4)
    assert len(await found(database, "late")) == 1


async def bodies(database: Database) -> Sequence[bytes]:
    async with database.transaction() as session:
        return (await session.scalars(select(TRACE_PACKS.c.body))).all()


async def test_a_pack_is_stored_as_it_came(database: Database) -> None:
    record = packed(a_pack(a_row(), a_row("other")))
    came = unpacked(Record(0, 0, None, record.value, list(record.headers)))
    assert came is not None
    await stored(database, came)
    assert await bodies(database) == [record.value]


async def test_small_packs_of_a_process_are_stored_as_one(database: Database) -> None:
    packs = [a_pack(a_row(f"m-{number}")) for number in range(9)]
    other = a_pack(a_row("m-9"))._replace(worker="w-2")
    await stored(database, *packs, other)
    assert len(await bodies(database)) == 2
    entries = [await found(database, f"m-{number}") for number in range(10)]
    assert [each.worker for (each,) in entries] == ["w-1"] * 9 + ["w-2"]


async def test_a_message_is_found_in_however_many_packs(database: Database) -> None:
    """One that is tried again for hours is in hundreds; the oldest entries come first."""
    store, attempts = await stored(database), 2 * PACKS_AT_ONCE + 3
    for attempt in range(1, attempts + 1):
        at = micros(now() - (attempts - attempt) * timedelta(seconds=1))
        pack = a_pack(a_row(at=at, attempt=attempt), a_row("other", at=at))
        await store.record([pack], STREAM, attempt)
    assert [each.attempt for each in await found(database)] == list(range(1, attempts + 1))
    assert [each.attempt for each in await found(database, limit=3)] == [1, 2, 3]


async def record_by_rows(database: Database, message_id: str, at: datetime) -> None:
    """As it was done before there were packs."""
    day, name = at.date(), f"traces_{at:%Y%m%d}"
    async with database.transaction() as session:
        ids = await TraceRepository(session).source_ids([BILLING])
        await session.execute(text(f"CREATE TABLE {name} (LIKE traces INCLUDING ALL)"))
        await session.execute(
            text(
                f"ALTER TABLE traces ATTACH PARTITION {name} FOR VALUES"
                f" FROM ('{day} 00:00+00') TO ('{day + DAY} 00:00+00')"
            )
        )
        await session.execute(
            insert(TRACES).values(
                at=at, message_key=trace_key(message_id), offset=7, source=ids[BILLING],
                partition=1, attempt=1, status_code=200, took=1.5, status="SUCCESS",
                message_id=message_id, reason="", worker="w-0", address="", batch_id="",
                retransmission="",
            )
        )  # fmt: skip


async def test_what_was_recorded_by_rows_is_found_until_its_day_is_dropped(
    database: Database, postgres_url: str
) -> None:
    before = now() - 3 * DAY
    await subscribed(database)
    await record_by_rows(database, "m", before)
    await stored(database, a_pack(a_row(at=micros(before + timedelta(seconds=1)))))
    entries = await found(database, topic="shop.orders", subscription="billing")
    assert [(each.worker, each.source) for each in entries] == [("w-0", BILLING), ("w-1", BILLING)]
    assert await found(database, topic="shop.orders", subscription="audit") == []
    url = libpq_url(postgres_url)
    assert first_traced(url, "s-1") == {1: 7, 3: 4_000_000_000}
    when = (before - DAY, before + DAY)
    places = [tuple(place) for rows in finished_positions(url, "s-1", when) for place in rows]
    assert places == [(1, 7), (3, 4_000_000_000)]
    await a_store(database, days=2).keep()
    assert await found(database) == []


async def test_a_pack_with_no_end_of_a_subscription_has_no_places_of_it(
    database: Database, postgres_url: str
) -> None:
    told = (("w-1", "FAILED"), ("w-2", "SUCCESS"), ("w-3", "INFLIGHT"))
    packs = [a_pack(a_row(status=status))._replace(worker=worker) for worker, status in told]
    await stored(database, *packs)
    when = (now() - DAY, now() + DAY)
    slices = list(finished_positions(libpq_url(postgres_url), "s-1", when))
    assert slices == [[(3, 4_000_000_000)]]


async def test_processes_keep_days_at_once(database: Database) -> None:
    await asyncio.gather(*(a_store(database).keep() for _ in range(4)))
    assert len(await days_there(database)) == 10


async def test_entries_are_stored_while_days_are_made_and_dropped(database: Database) -> None:
    store = a_store(database)
    await store.positions()

    async def record() -> None:
        for number in range(20):
            await store.record([a_pack(a_row())], Partition("angelia.traces", 2), number + 1)

    async def keep() -> None:
        for days in (3, 7, 3, 7):
            await a_store(database, days=days).keep()

    await asyncio.gather(record(), keep())
    assert len(await found(database)) == 20


def test_what_is_too_old_and_what_is_too_much() -> None:
    today = date(2026, 3, 1)
    wanted = wanted_days(today, kept=2 * DAY)
    assert wanted == [date(2026, 2, 27) + n * DAY for n in range(5)]
    days = [TraceDay(day, 100_000) for day in wanted]
    assert outdated(days, today + DAY, kept=2 * DAY) == [date(2026, 2, 27)]
    assert over_budget(days, today, bytes_max=500_000) is None
    assert over_budget(days, today, bytes_max=499_999) == date(2026, 2, 27)
    only_today = [TraceDay(wanted[0], 24_576), TraceDay(today, 10**9)]
    assert over_budget(only_today, today, bytes_max=1) is None
