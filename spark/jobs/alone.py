"""Analyses on their own, without a job in the database: by `spark-submit`, into Parquet alone."""

import argparse
import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from pyspark.sql import SparkSession

from app.config import Settings
from app.domain.job import JobResult, Scope
from app.storage.urls import libpq_url
from spark.session import submitted_session
from spark.work import Progress, Work

WINDOW_DEFAULT: Final = timedelta(days=1)


def parser(description: str) -> argparse.ArgumentParser:
    """What all of them are told: the time, the scope, and where the files go."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--from", dest="start", type=_instant, help="inclusive; a day before --to")
    made.add_argument("--to", type=_instant, help="exclusive; now")
    made.add_argument("--topic", help="only this topic")
    made.add_argument("--subscription", help="only this one of the topic's")
    made.add_argument("--output", required=True, help="folder or URI for the Parquet files")
    return made


def carry_out(
    run: Callable[[SparkSession, Work], JobResult],
    given: argparse.Namespace,
    *,
    slo: timedelta | None = None,
) -> None:
    """Do what was told; the counts go to standard output as JSON. SystemExit."""
    end = given.to or datetime.now(UTC)
    scope = Scope(
        start=given.start or end - WINDOW_DEFAULT,
        end=end,
        topic=given.topic,
        subscription=given.subscription,
        slo=slo,
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


def _instant(text: str) -> datetime:
    parsed = datetime.fromisoformat(text)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
