"""Discards that are retracted: taken off the list, and kept off it."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from sqlalchemy import text

from app.domain.discards.retractions import Entry, Retraction
from app.domain.discards.undelivered import Undelivered, UndeliveredFilter
from app.domain.message import Partition
from app.services.pruning import Pruner
from app.storage.database import Database
from app.storage.discards.undelivered import UndeliveredRepository
from tests.integration.storage.builders import an_undelivered

STREAM = Partition("angelia.undelivered", 2)
RETRACTION = Retraction(
    subscription_id="s-1", partition=0, producer_epoch="ab", offset=5, finished=((7, 9),)
)


def discards(*offsets: int, **values: object) -> list[Undelivered]:
    return [an_undelivered(offset, **{"producer_epoch": "ab", **values}) for offset in offsets]


async def record(database: Database, entries: Sequence[Entry], *, end: int) -> None:
    async with database.transaction() as session:
        assert await UndeliveredRepository(session).record(entries, STREAM, end) is None


async def listed(database: Database) -> list[tuple[str, int, int, str]]:
    async with database.transaction() as session:
        page = await UndeliveredRepository(session).page(UndeliveredFilter(), limit=100)
    return sorted((e.subscription_id, e.partition, e.offset, e.producer_epoch) for e in page.items)


async def offsets(database: Database) -> list[int]:
    return [each[2] for each in await listed(database)]


async def test_only_what_is_retracted_is_taken_off_the_list(database: Database) -> None:
    others = [
        *discards(6, subscription_id="s-2"),
        *discards(6, partition=1),
        *discards(10, producer_epoch="cd"),
        *discards(11, producer_epoch=""),
    ]
    await record(database, [*discards(4, 5, 6, 7, 8, 9), *others, RETRACTION], end=1)
    assert await listed(database) == [
        ("s-1", 0, 4, "ab"),
        ("s-1", 0, 7, "ab"),
        ("s-1", 0, 8, "ab"),
        ("s-1", 0, 10, "cd"),
        ("s-1", 0, 11, ""),
        ("s-1", 1, 6, "ab"),
        ("s-2", 0, 6, "ab"),
    ]


async def test_what_is_refused_again_behind_the_retraction_is_listed(database: Database) -> None:
    # By a worker whose clock is behind.
    (first,) = discards(5)
    again = replace(
        first, producer_epoch="cd", discarded_at=first.discarded_at - timedelta(hours=1)
    )
    await record(database, [first, RETRACTION, again], end=3)
    assert await listed(database) == [("s-1", 0, 5, "cd")]


async def test_what_comes_late_of_a_producer_epoch_that_was_retracted_is_not_listed(
    database: Database,
) -> None:
    await record(database, discards(4), end=1)
    await record(database, [RETRACTION], end=2)
    await record(database, [*discards(5, 6, 7), *discards(8, producer_epoch="cd")], end=6)
    assert await offsets(database) == [4, 7, 8]


async def test_the_last_of_several_retractions_of_a_producer_epoch_counts(
    database: Database,
) -> None:
    await record(
        database, [replace(RETRACTION, offset=9, finished=()), RETRACTION, RETRACTION], end=3
    )
    await record(database, discards(5, 8), end=5)
    assert await offsets(database) == [8]


async def test_retractions_are_dropped_when_nobody_can_be_heard_of_any_more(
    database: Database,
) -> None:
    await record(database, [RETRACTION, replace(RETRACTION, producer_epoch="old")], end=2)
    async with database.transaction() as session:
        long_ago = "SET recorded_at = now() - interval '8 d' WHERE producer_epoch = 'old'"
        await session.execute(text(f"UPDATE discard_retractions {long_ago}"))
    await Pruner(database, undelivered_kept=timedelta(days=30)).prune()
    async with database.transaction() as session:
        kept = await session.scalars(text("SELECT producer_epoch FROM discard_retractions"))
        assert kept.all() == ["ab"]
