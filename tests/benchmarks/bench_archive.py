"""The archive job over a million messages and over five: whether time grows as they do.

On two threads of this machine, which PostgreSQL shares, where the embedded log is. Also written to
`build/bench/spark-archive.json`.
"""

import time
import uuid
from pathlib import Path
from typing import Final

import psycopg
import pytest
from pyspark.sql import SparkSession

from app.domain.job import Claim
from spark.jobs import archive
from spark.work import Work, WorkProgress
from tests.benchmarks import growth
from tests.benchmarks.figures import Report
from tests.spark.archives import SCOPE
from tests.spark.small import small_session

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
# A hundred bytes each, with an id as our publishers give it, over three hours.
_FILL: Final = """
INSERT INTO log_records (topic_id, partition, "offset", timestamp_ms, value, headers)
SELECT t.id, n %% 4, n / 4, 1767268800000 + n::bigint * 10800000 / %(size)s,
  convert_to('{"order": ' || n || ', "text": "' || repeat('x', 70) || '"}', 'UTF8'),
  '\\x0002000000086964'::bytea || convert_to(lpad(n::text, 8, '0'), 'UTF8')
FROM log_topics t, generate_series(0, %(size)s - 1) AS n
"""


# Much of it is filling the log.
@pytest.mark.timeout(3_600)
def test_messages_are_archived_in_time_that_grows_as_they_do(
    postgres_url: str, tmp_path: Path
) -> None:
    report = Report("spark-archive", "The archive job over messages of 100 bytes, embedded log")
    seconds: dict[int, float] = {}
    with psycopg.connect(postgres_url) as connection:
        connection.execute(_TOPIC)
    with small_session(tmp_path, conf={}, memory="1g") as session:
        filled(postgres_url, 1_000)
        done(session, postgres_url, tmp_path)  # warm
        for size in growth.SIZES:
            filled(postgres_url, size)
            started = time.perf_counter()
            assert done(session, postgres_url, tmp_path) == size
            seconds[size] = time.perf_counter() - started
    growth.add(report, "archive", seconds)
    report.write()


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
        progress=WorkProgress(),
    )
    return archive.run(session, work).counts["messages"]
