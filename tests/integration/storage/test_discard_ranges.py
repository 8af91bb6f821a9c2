"""The ids among which Spark's tasks look for discards."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest
from psycopg import sql

from app.domain.job import JobScope
from app.storage.spark.discard_rows import RANGE_ROWS, ids_of, undelivered_ranges
from app.storage.spark.retransmission_rows import Discards, discard_ids, discard_ranges
from tests.integration.storage.builders import NOON

DAY = JobScope(start=NOON, end=NOON + timedelta(days=1))
WANTED = Discards(subscription_id="s-1", since=DAY.start, until=DAY.end)
# So many were discarded before that day, and after it.
OTHERS = 20_000
# So many on that day.
FOUND = 200

Ranges = Callable[[str], Sequence[tuple[int, int]]]


async def recorded(url: str) -> None:
    """Discards of many days, and of one day in the middle."""
    row = sql.SQL("""
        INSERT INTO undelivered (subscription_id, topic, subscription, message_id, discarded_at,
          reason, attempts, partition, "offset", body, headers)
        SELECT 's-1', 'shop.orders', 'billing', 'm-' || n, {at}::timestamptz + n * {apart}, 'x', 1,
          0, {first} + n, '', '[]' FROM generate_series(0, {count} - 1) n
    """)
    minute = timedelta(minutes=1)
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute(
            row.format(at=NOON - timedelta(days=20), apart=minute, first=0, count=OTHERS)
        )
        await connection.execute(
            row.format(at=DAY.start, apart=timedelta(seconds=1), first=OTHERS, count=FOUND)
        )
        await connection.execute(
            row.format(at=DAY.end, apart=minute, first=2 * OTHERS, count=OTHERS)
        )
        await connection.execute("VACUUM ANALYZE undelivered")


# The tables are there, and empty.
pytestmark = pytest.mark.usefixtures("database")


@pytest.mark.parametrize(
    "ranges",
    [
        lambda url: undelivered_ranges(url, DAY),
        lambda url: undelivered_ranges(url, replace(DAY, topic="shop.orders")),
        lambda url: discard_ranges(url, WANTED),
    ],
    ids=["of a time", "of a topic", "to send again"],
)
async def test_tasks_look_only_among_the_ids_of_the_time(postgres_url: str, ranges: Ranges) -> None:
    assert ranges(postgres_url) == []
    await recorded(postgres_url)
    assert ranges(postgres_url) == [(OTHERS + 1, OTHERS + FOUND + 1)]
    assert FOUND < RANGE_ROWS


@pytest.mark.parametrize(
    ("query", "index"),
    [
        (ids_of(DAY), "ix_undelivered_time"),
        (ids_of(replace(DAY, topic="shop.orders")), "ix_undelivered_topic"),
        (discard_ids(WANTED), "ix_undelivered_to_redrive"),
    ],
    ids=["of a time", "of a topic", "to send again"],
)
async def test_these_ids_are_found_without_reading_others(
    postgres_url: str, query: sql.Composed, index: str
) -> None:
    await recorded(postgres_url)
    explained = sql.SQL("EXPLAIN (ANALYZE, COSTS off, TIMING off) {}").format(query)
    async with await psycopg.AsyncConnection.connect(postgres_url) as connection:
        plan = "\n".join(row[0] for row in await (await connection.execute(explained)).fetchall())
    assert f"using {index} on undelivered (actual rows={FOUND}" in plan, plan
