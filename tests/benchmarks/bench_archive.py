"""The archive job over many messages: how long it takes, and whether that grows as they do."""

import time
import uuid
from pathlib import Path
from typing import Final

import psycopg
from pyspark.sql import SparkSession

from app.domain.job import Claim
from spark.jobs import archive
from spark.work import Progress, Work
from tests.spark.archives import SCOPE
from tests.spark.small import small_session

SIZES: Final = (50_000, 250_000)
PARTITIONS: Final = 4

_TOPIC: Final = """
INSERT INTO groups (name) VALUES ('shop') ON CONFLICT DO NOTHING;
INSERT INTO topics (name, group_name, description, owner_source, owner_id, partitions, settings,
  change)
VALUES ('shop.orders', 'shop', '', 'Plaintext', 'tests', 4,
  '{"offline_storage": {"enabled": true, "days": 60}}', 1);
INSERT INTO log_topics (name, retention_ms, message_size_max)
VALUES ('shop.orders', 86400000, 51200);
INSERT INTO log_partitions (topic_id, partition)
SELECT id, generate_series(0, 3) FROM log_topics;
"""
# A kilobyte each, with an id as our publishers give it, over three hours.
_FILL: Final = """
INSERT INTO log_records (topic_id, partition, "offset", timestamp_ms, value, headers)
SELECT t.id, n %% 4, n / 4, 1767268800000 + n * 10800000::bigint / %(size)s,
  convert_to('{"order": ' || n || ', "text": "' || repeat('x', 970) || '"}', 'UTF8'),
  '\\x0002000000086964'::bytea || convert_to(lpad(n::text, 8, '0'), 'UTF8')
FROM log_topics t, generate_series(0, %(size)s - 1) AS n
"""


def test_messages_are_archived_in_time_that_grows_as_they_do(
    postgres_url: str, tmp_path: Path
) -> None:
    seconds: dict[int, float] = {}
    with psycopg.connect(postgres_url) as connection:
        connection.execute(_TOPIC)
    with small_session(tmp_path, conf={}, memory="1g") as session:
        filled(postgres_url, 1_000)
        done(session, postgres_url, tmp_path)  # warm
        for size in SIZES:
            filled(postgres_url, size)
            started = time.perf_counter()
            assert done(session, postgres_url, tmp_path) == size
            seconds[size] = time.perf_counter() - started
    for size, took in seconds.items():
        print(f"{size:>9,} messages of 1 KB: {took:6.1f} s, {size / took:9,.0f} a second")
    few, many = SIZES
    growth = seconds[many] / seconds[few]
    print(f"{many / few:.0f} times as many take {growth:.1f} times as long")


def filled(url: str, size: int) -> None:
    """The log has so many messages, and no others."""
    with psycopg.connect(url) as connection:
        connection.execute("TRUNCATE log_records")
        connection.execute(_FILL, {"size": size})
        connection.execute("UPDATE log_partitions SET next_offset = %s", (size // PARTITIONS,))


def done(session: SparkSession, url: str, place: Path) -> int:
    """Archive all of it, which then does not count; how many messages it was."""
    work = Work(
        database_url=url,
        scope=SCOPE,
        output=str(place / "out"),
        archive=str(place / "archive"),
        claim=Claim(job_id=uuid.uuid4().hex, attempt=1),
        progress=Progress(),
    )
    return archive.run(session, work).counts["messages"]
