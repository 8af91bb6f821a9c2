"""Spark jobs over many rows: seconds for a million of them, and whether time grows as they do."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from pyspark.sql import SparkSession

from app.domain.filters import Filter, FilterType
from app.domain.message import NewRecord
from app.storage.database import Database
from spark.jobs import undelivered_analytics
from spark.work import Progress, Work
from tests.contract.harness import KafkaHarness
from tests.integration.storage.builders import TOPIC
from tests.servers.kafka import KafkaBroker
from tests.spark.retransmissions import Bench, a_bench
from tests.spark.small import small_session
from tests.spark.test_undelivered_job import DAY

SIZES: Final = (100_000, 500_000)
# Of the log: small messages.
RECORDS: Final = (1_000_000, 5_000_000)
APPENDED_AT_ONCE: Final = 5_000
BODY: Final = b'{"n": %d, "filler": "' + b"x" * 80 + b'"}'

_A_TENTH: Final = Filter(type=FilterType.JSONPATH, path="$.n", matcher="[0-9]*7")

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
    say("undelivered analytics (1 KB)", seconds)


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


# Most of it is appending.
@pytest.mark.timeout(1_800)
async def test_retransmissions_are_chosen_in_time_that_grows_as_the_log_does(
    database: Database, kafka_broker: KafkaBroker, postgres_url: str, tmp_path: Path
) -> None:
    every, tenth = dict[int, float](), dict[int, float]()
    harness = KafkaHarness(kafka_broker.bootstrap)
    with small_session(tmp_path, conf={}, memory="1g") as session:
        async with a_bench(session, database, harness, url=postgres_url, output=tmp_path) as bench:
            await bench.publish(b"{}")
            await bench.chosen()  # warm
            there = 0
            for size in RECORDS:
                there = await appended(bench, there, size)
                every[size] = await chosen_in(bench, size + 1)
                tenth[size] = await chosen_in(bench, size // 10, filters=(_A_TENTH,))
    say("retransmission, all", every)
    say("retransmission, a tenth", tenth)


async def appended(bench: Bench, there: int, size: int) -> int:
    """Bring the log to so many records; how many there are."""
    for first in range(there, size, APPENDED_AT_ONCE):
        numbers = range(first, min(first + APPENDED_AT_ONCE, size))
        await bench.log.append(TOPIC, [NewRecord(value=BODY % number) for number in numbers])
    return size


async def chosen_in(bench: Bench, wanted: int, **selection: Any) -> float:  # noqa: ANN401 - of the request
    """How many seconds it takes to choose that; `wanted` of them are found."""
    asked = await bench.asked(**selection)
    job = await bench.taken()
    started = time.perf_counter()
    result = await bench.done(job)
    took = time.perf_counter() - started
    assert await bench.finished(job, result)
    assert (await bench.seen(asked)).counts.matched == wanted
    return took


def say(job: str, seconds: Mapping[int, float]) -> None:
    """A line for each size, and how it grows."""
    for size, took in seconds.items():
        million = took / size * 1e6
        print(
            f"{job:<28} {size / 1e6:5.2f} million rows: {took:6.1f} s, {million:6.1f} s a million"
        )
    few, many = seconds
    growth = seconds[many] / seconds[few]
    print(f"{job:<28} {many / few:4.0f} times as many take {growth:.1f} times as long")
