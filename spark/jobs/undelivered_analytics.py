"""Undelivered messages: counted by what they have in common, and their failures in clusters.

Also on its own, on any cluster; the results are then Parquet alone:

    spark-submit spark/jobs/undelivered_analytics.py --from 2026-01-01 --output s3a://bucket/january
"""

import argparse
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from app.config import Settings
from app.domain.job import JobResult, Scope
from app.storage.analytics_parts import FAILURES, UNDELIVERED
from app.storage.urls import libpq_url
from spark.session import submitted_session
from spark.sinks import to_database, to_parquet
from spark.sources import undelivered
from spark.transforms.undelivered import clustered, counted, described
from spark.work import Progress, Work

WINDOW_DEFAULT: Final = timedelta(days=1)


def run(session: SparkSession, work: Work) -> JobResult:
    """Do it; WorkStoppedError when it is told to stop between two steps."""
    # Read once, for both results; bodies are not in it any more.
    discards = described(undelivered(session, work.database_url, work.scope))
    discards = discards.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        work.progress.step("Counting undelivered messages", done=0.1)
        messages, counts = _kept(counted(discards), UNDELIVERED, work)
        work.progress.step("Finding clusters of failures", done=0.6)
        _, clusters = _kept(clustered(discards), FAILURES, work)
    finally:
        discards.unpersist()
    work.progress.say(f"{messages} messages in {counts} counts and {clusters} clusters")
    found = {"messages": messages, "counts": counts, "clusters": clusters}
    return JobResult(counts=found, output=work.output)


def _kept(result: DataFrame, name: str, work: Work) -> tuple[int, int]:
    """Write a result wherever it goes; how many messages it is of, and how many rows."""
    result = result.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        to_parquet(result, f"{work.output}/{name.removeprefix('analytics_')}")
        if work.claim is not None:
            to_database(result, name, url=work.database_url, claim=work.claim)
        total = result.agg(F.sum("messages"), F.count(F.lit(1))).first()
    finally:
        result.unpersist()
    messages, rows = total or (0, 0)
    return messages or 0, rows


def main(arguments: Sequence[str]) -> None:
    """Do it as `spark-submit` is told to; the counts go to standard output as JSON."""
    given = _parser().parse_args(arguments)
    end = given.to or datetime.now(UTC)
    scope = Scope(
        start=given.start or end - WINDOW_DEFAULT,
        end=end,
        topic=given.topic,
        subscription=given.subscription,
    )
    url = Settings().database_url
    if url is None:
        raise SystemExit("Set ANGELIA_DATABASE_URL to the database to read.")
    work = Work(
        database_url=libpq_url(url.get_secret_value()),
        scope=scope,
        output=given.output.rstrip("/"),
        claim=None,
        progress=Progress(),
    )
    result = run(submitted_session(), work)
    sys.stdout.write(json.dumps(dict(result.counts)) + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Count undelivered messages, find clusters.")
    parser.add_argument("--from", dest="start", type=_instant, help="inclusive; a day before --to")
    parser.add_argument("--to", type=_instant, help="exclusive; now")
    parser.add_argument("--topic", help="only this topic")
    parser.add_argument("--subscription", help="only this one of the topic's")
    parser.add_argument("--output", required=True, help="folder or URI for the Parquet files")
    return parser


def _instant(text: str) -> datetime:
    parsed = datetime.fromisoformat(text)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


if __name__ == "__main__":
    main(sys.argv[1:])
