import asyncio
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from app.domain.discards.redrive import RedriveFilter
from app.domain.discards.undelivered import UndeliveredFilter
from app.domain.errors import ValidationFailedError
from app.domain.message import Partition
from app.storage.database import Database
from app.storage.discards.pages import MESSAGE_ID_MAX
from app.storage.discards.redrives import RedriveRepository
from app.storage.discards.undelivered import UndeliveredRepository
from app.storage.runtime.recorder_positions import RecorderPositions
from tests.integration.storage.builders import NOON, TOPIC, an_undelivered

OF_S1 = UndeliveredFilter(subscription_id="s-1")
STREAM = Partition("angelia.undelivered", 2)


async def offsets(database: Database, **filters: Any) -> list[int]:  # noqa: ANN401 - of `page`
    async with database.transaction() as session:
        after = filters.pop("after", None)
        asked = UndeliveredFilter(subscription_id="s-1", **filters)
        page = await UndeliveredRepository(session).page(asked, limit=100, after=after)
    return [item.offset for item in page.items]


async def record(
    database: Database, *recorded: int, next_offset: int = 100, start: int = 0
) -> int | None:
    async with database.transaction() as session:
        discards = [an_undelivered(offset) for offset in recorded]
        undelivered = UndeliveredRepository(session)
        return await undelivered.record(discards, STREAM, next_offset, start=start)


async def test_the_last_discard_comes_back_as_it_was(database: Database) -> None:
    await record(database, 1, 2)
    async with database.transaction() as session:
        assert await UndeliveredRepository(session).last("s-1") == an_undelivered(2)
        assert await UndeliveredRepository(session).last("s-2") is None


async def test_a_discard_without_body_status_and_headers_is_kept(database: Database) -> None:
    discard = an_undelivered(status=None, last_failure="", answer="", body=b"", headers=())
    async with database.transaction() as session:
        await UndeliveredRepository(session).record([discard], STREAM, 1)
        assert await UndeliveredRepository(session).last("s-1") == discard


async def test_a_batch_is_recorded_once(database: Database) -> None:
    assert await record(database, 1, 2, next_offset=10) is None
    assert await record(database, 1, 2, 3, next_offset=10) == 10
    assert await record(database, 4, next_offset=9) == 10
    assert await offsets(database) == [2, 1]
    async with database.transaction() as session:
        assert await RecorderPositions(session).all() == {STREAM: 10}


async def test_a_batch_that_overlaps_another_adds_what_is_new(database: Database) -> None:
    await record(database, 1, 2, next_offset=10)
    assert await record(database, 2, 3, next_offset=11) is None
    assert await offsets(database) == [3, 2, 1]


async def test_nothing_is_recorded_behind_discards_that_the_database_has_lost(
    database: Database,
) -> None:
    await record(database, 1, 2, next_offset=10)
    assert await record(database, 3, start=11, next_offset=12) == 10
    assert await offsets(database) == [2, 1]
    assert await record(database, 3, start=10, next_offset=12) is None
    assert await offsets(database) == [3, 2, 1]


async def test_a_message_that_is_discarded_again_is_listed_once_as_it_ended_last(
    database: Database,
) -> None:
    first = an_undelivered(3, status=503, attempts=9, body=b"1")
    later = first.discarded_at + timedelta(hours=1)
    again = replace(first, discarded_at=later, status=400, answer="never", attempts=2)
    again = replace(again, last_failure="")
    await record(database, 4)
    for next_offset, discards in enumerate(([first], [again, again], [first]), 101):
        async with database.transaction() as session:
            await UndeliveredRepository(session).record(discards, STREAM, next_offset)
    async with database.transaction() as session:
        page = await UndeliveredRepository(session).page(OF_S1, limit=100)
    assert page.items == (again, an_undelivered(4))


async def test_a_message_of_another_place_is_another_discard(database: Database) -> None:
    first = an_undelivered(3)
    others = [
        replace(first, subscription_id="s-2"),
        replace(first, partition=1),
        replace(first, offset=4),
        # In a log that was made anew.
        replace(first, message_id="m-4"),
    ]
    async with database.transaction() as session:
        repository = UndeliveredRepository(session)
        await repository.record([first, *others], STREAM, 5)
        page = await repository.page(UndeliveredFilter(topic=TOPIC), limit=100)
    assert sorted(page.items, key=repr) == sorted([first, *others], key=repr)


@pytest.mark.parametrize("minutes", [1, -1], ids=["discarded-after", "discarded-before"])
async def test_what_is_discarded_again_was_sent_again_only_if_that_came_after(
    database: Database, minutes: int
) -> None:
    first = an_undelivered(3)
    async with database.transaction() as session:
        await UndeliveredRepository(session).record([first], STREAM, 1)
        redrives = RedriveRepository(session)
        (chosen,) = await redrives.choose("s-1", RedriveFilter(), limit=1)
        await redrives.mark([chosen.row], "r")
    async with database.transaction() as session:
        sent = await UndeliveredRepository(session).last("s-1")
        assert sent is not None
        assert sent.redriven_at is not None
        again = replace(first, discarded_at=sent.redriven_at + timedelta(minutes=minutes))
        await UndeliveredRepository(session).record([again], STREAM, 2)
    async with database.transaction() as session:
        told = await UndeliveredRepository(session).last("s-1")
        left = await RedriveRepository(session).choose("s-1", RedriveFilter(), limit=1)
    assert told == replace(again, redriven_at=None if minutes > 0 else sent.redriven_at)
    assert bool(left) == (minutes > 0)


async def test_two_recorders_of_one_stream_record_once(database: Database) -> None:
    results = await asyncio.gather(*(record(database, 1, 2, next_offset=3) for _ in range(5)))
    assert Counter(results) == {None: 1, 3: 4}
    assert await offsets(database) == [2, 1]


async def test_a_position_moves_without_discards_too(database: Database) -> None:
    assert await record(database, next_offset=7) is None
    async with database.transaction() as session:
        assert await RecorderPositions(session).all() == {STREAM: 7}


async def test_neither_rows_nor_position_are_kept_when_the_transaction_fails(
    database: Database,
) -> None:
    async def fail() -> None:
        async with database.transaction() as session:
            await UndeliveredRepository(session).record([an_undelivered()], STREAM, 1)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await fail()
    async with database.transaction() as session:
        assert await RecorderPositions(session).all() == {}
        assert await UndeliveredRepository(session).last("s-1") is None


async def test_text_that_postgres_cannot_hold_does_not_stop_the_recorder(
    database: Database,
) -> None:
    strange = an_undelivered(
        message_id="\0" + "\U0001f600" * 5_000,
        reason="a\0b\ud800c",
        last_failure="d\0",
        headers=(("X\0", "\0"),),
    )
    async with database.transaction() as session:
        await UndeliveredRepository(session).record([strange], STREAM, 1)
        kept = await UndeliveredRepository(session).last("s-1")
    assert kept is not None
    assert kept.reason == "a\N{REPLACEMENT CHARACTER}b?c"
    assert kept.last_failure == "d\N{REPLACEMENT CHARACTER}"
    assert kept.headers == (("X\N{REPLACEMENT CHARACTER}", "\N{REPLACEMENT CHARACTER}"),)
    assert len(kept.message_id) == MESSAGE_ID_MAX


async def test_pages_run_from_newest_to_oldest_whatever_is_added_meanwhile(
    database: Database,
) -> None:
    await record(database, *range(7), next_offset=7)
    seen: list[int] = []
    after: str | None = None
    while True:
        async with database.transaction() as session:
            page = await UndeliveredRepository(session).page(OF_S1, limit=3, after=after)
        seen += [item.offset for item in page.items]
        await record(database, 50 + len(seen), next_offset=50 + len(seen))
        if page.after is None:
            break
        after = page.after
    assert seen == [6, 5, 4, 3, 2, 1, 0]


async def test_discards_of_one_moment_are_paged_without_loss(database: Database) -> None:
    discards = [an_undelivered(offset, discarded_at=NOON) for offset in range(5)]
    async with database.transaction() as session:
        repository = UndeliveredRepository(session)
        await repository.record(discards, STREAM, 5)
        first = await repository.page(OF_S1, limit=2)
        second = await repository.page(OF_S1, limit=100, after=first.after)
    assert [item.offset for item in (*first.items, *second.items)] == [4, 3, 2, 1, 0]


async def test_a_page_ends_with_the_body_that_reaches_16_mib(database: Database) -> None:
    large = b"x" * (6 * 1024 * 1024)
    bodies = [b"a", b"b", large, large, large, large * 3]
    discards = [an_undelivered(offset, body=body) for offset, body in enumerate(bodies)]
    pages, after = list[list[int]](), None
    async with database.transaction() as session:
        repository = UndeliveredRepository(session)
        await repository.record(discards, STREAM, 6)
        while not pages or after is not None:
            page = await repository.page(OF_S1, limit=5, after=after)
            pages.append([item.offset for item in page.items])
            after = page.after
    assert pages == [[5], [4, 3, 2], [1, 0]]


async def test_filters_narrow_what_is_listed(database: Database) -> None:
    discards = [
        an_undelivered(0, status=400, reason="status code:400"),
        an_undelivered(1, status=404, reason="status code:404"),
        an_undelivered(2, status=None, reason="Total timeout ELAPSED 100%"),
        an_undelivered(3, subscription_id="s-2"),
    ]
    async with database.transaction() as session:
        await UndeliveredRepository(session).record(discards, STREAM, 4)
    assert await offsets(database, status=404) == [1]
    assert await offsets(database, reason="timeout elapsed") == [2]
    assert await offsets(database, reason="%") == [2]
    assert await offsets(database, reason="timeout_elapsed") == []
    assert await offsets(database, reason="\\%") == []
    assert await offsets(database, since=NOON + timedelta(seconds=1)) == [2, 1]
    assert await offsets(database, until=NOON + timedelta(seconds=1)) == [0]
    assert await offsets(database, until=datetime(2020, 1, 1, tzinfo=UTC)) == []


async def test_a_page_reads_what_it_shows_and_not_all_of_its_subscription(
    database: Database,
) -> None:
    """Each topic is rare and so is each subscription, but all of one is the other's, too."""
    async with database.transaction() as session:
        discards = [
            an_undelivered(offset, topic=f"t.{n}", subscription_id=f"s-{n}")
            for n in range(40)
            for offset in range(200)
        ]
        await UndeliveredRepository(session).record(discards, STREAM, 1)
    async with database.transaction() as session:
        await session.execute(text("ANALYZE undelivered"))
    async with database.transaction() as session:
        asked = UndeliveredFilter(topic="t.7", subscription_id="s-7")
        page = await UndeliveredRepository(session).page(asked, limit=5)
        assert [each.offset for each in page.items] == [199, 198, 197, 196, 195]
        read = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = "
        assert await session.scalar(text(f"{read}'undelivered'")) <= 10


async def test_a_message_and_a_topic_are_found_over_subscriptions(database: Database) -> None:
    discards = [
        an_undelivered(0, message_id="m", key=b"a"),
        an_undelivered(1, message_id="n", key=b"b"),
        an_undelivered(2, message_id="m", subscription_id="s-2"),
        an_undelivered(3, message_id="m", topic="shop.other", subscription_id="s-3"),
    ]

    async def found(asked: UndeliveredFilter) -> list[int]:
        page = await UndeliveredRepository(session).page(asked, limit=100)
        return [item.offset for item in page.items]

    async with database.transaction() as session:
        await UndeliveredRepository(session).record(discards, STREAM, 4)
        assert await found(UndeliveredFilter(message_id="m")) == [3, 2, 0]
        assert await found(UndeliveredFilter(topic=TOPIC)) == [2, 1, 0]
        assert await found(UndeliveredFilter(topic=TOPIC, message_id="m")) == [2, 0]
        assert await found(UndeliveredFilter(topic=TOPIC, key=b"b")) == [1]
        assert await found(UndeliveredFilter(message_id="m\0" + "x" * 900)) == []


@pytest.mark.parametrize(
    "after",
    ["x", "\N{SNOWMAN}", "MQ", "MS5h", "LTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5LjE", "MS4" + "5" * 40],
)
async def test_a_made_up_page_is_refused(database: Database, after: str) -> None:
    with pytest.raises(ValidationFailedError) as refused:
        await offsets(database, after=after)
    assert refused.value.details[0].path == "after"
