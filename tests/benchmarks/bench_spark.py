"""Spark jobs over many rows: how long each takes, and whether that grows as the rows do."""

import time
from pathlib import Path
from typing import Final

import psycopg
from pyspark.sql import SparkSession

from spark.jobs import undelivered_analytics
from spark.work import Progress, Work
from tests.spark.small import small_session
from tests.spark.test_undelivered_job import DAY

SIZES: Final = (100_000, 500_000)

# A kilobyte each, as discards of twenty subscriptions with a few errors and shapes.
_FILL: Final = """
INSERT INTO undelivered (subscription_id, topic, subscription, message_id, discarded_at, reason,
  status, attempts, partition, "offset", body, headers)
SELECT 's-' || n %% 20, 'shop.orders', 'subscriber-' || n %% 20, 'm-' || n,
  '2026-01-01T00:00:00Z'::timestamptz + n %% 80000 * interval '1 second',
  'order ' || n || ' failed with status code:' || 400 + n %% 5, 400 + n %% 5, 1 + n %% 3, 0, n,
  convert_to(
    '{"order": ' || n || ', "field-' || n %% 7 || '": "' || repeat('x', 960) || '"}', 'UTF8'
  ),
  '[]'
FROM generate_series(1, %s) AS n
"""


def test_undelivered_messages_are_analysed_in_time_that_grows_as_they_do(
    postgres_url: str, tmp_path: Path
) -> None:
    seconds: dict[int, float] = {}
    with small_session(tmp_path, conf={}, memory="1g") as session:
        done(session, postgres_url, tmp_path)  # warm
        for size in SIZES:
            with psycopg.connect(postgres_url) as connection:
                connection.execute("TRUNCATE undelivered")
                connection.execute(_FILL, (size,))
            started = time.perf_counter()
            assert done(session, postgres_url, tmp_path) == size
            seconds[size] = time.perf_counter() - started
    for size, took in seconds.items():
        print(f"{size:>9,} discards of 1 KB: {took:6.1f} s, {size / took:9,.0f} a second")
    few, many = SIZES
    growth = seconds[many] / seconds[few]
    print(f"{many / few:.0f} times as many take {growth:.1f} times as long")


def done(session: SparkSession, url: str, place: Path) -> int:
    """Do the job; how many messages it found."""
    work = Work(
        database_url=url,
        scope=DAY,
        output=str(place / "out"),
        claim=None,
        progress=Progress(),
    )
    return undelivered_analytics.run(session, work).counts["messages"]
