"""Runs analyses that `spark-submit` starts: for a requested job, or without a job.

Without a job, the results are written only as Parquet files.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from pyspark.sql import SparkSession

from app.config import Settings
from app.domain.job import JobKind, JobResult, JobScope
from app.postgres.urls import libpq_url
from app.storage.embedded.configured import configured_url
from spark import submitted
from spark.session import submitted_session
from spark.work import Work, WorkProgress

WINDOW_DEFAULT: Final = timedelta(days=1)


def parser(description: str) -> argparse.ArgumentParser:
    """Return the parser for the arguments of all analyses: time, scope, output folder, and job."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument(
        "--from", dest="start", type=_instant, help="start, inclusive; default: a day before --to"
    )
    made.add_argument("--to", type=_instant, help="end, exclusive; default: now")
    made.add_argument("--topic", help="only this topic")
    made.add_argument("--subscription", help="only this subscription of the topic")
    made.add_argument("--output", help="folder or URI for the Parquet files")
    made.add_argument("--job", help="id of a requested job; no other option goes with it")
    return made


def parsed(made: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    """Return the parsed arguments.

    Raises:
        SystemExit: The arguments are not valid.
    """
    given = made.parse_args(arguments)
    others = [name for name, value in vars(given).items() if name != "job" and value is not None]
    if given.job is None and given.output is None:
        made.error("--output is needed, or --job")
    if given.job is not None and others:
        made.error("--job goes with no other option: the job has them itself")
    return given


def carry_out(
    run: Callable[[SparkSession, Work], JobResult],
    given: argparse.Namespace,
    *,
    kind: JobKind,
    slo: timedelta | None = None,
) -> None:
    """Run an analysis, and write the counts of its result to standard output as JSON.

    `given` has the parsed arguments. If they name a job, `slo` is ignored, because the job has its
    own SLO.

    Raises:
        SystemExit: If the arguments name a job: always, with the exit code. Otherwise: no database
            is configured.
    """
    if given.job is not None:
        submitted.carry_out([kind], run, ["--job", given.job])
        return
    end = given.to or datetime.now(UTC)
    scope = JobScope(
        start=given.start or end - WINDOW_DEFAULT,
        end=end,
        topic=given.topic,
        subscription=given.subscription,
        slo=slo,
    )
    settings = Settings()
    url = configured_url(settings)
    if url is None:
        raise SystemExit("Set ANGELIA_DATABASE_URL to the database to read.")
    work = Work(
        database_url=libpq_url(url),
        scope=scope,
        output=given.output.rstrip("/"),
        claim=None,
        progress=WorkProgress(),
    )
    result = run(submitted_session(settings), work)
    sys.stdout.write(json.dumps(dict(result.counts)) + "\n")


def _instant(text: str) -> datetime:
    parsed = datetime.fromisoformat(text)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
