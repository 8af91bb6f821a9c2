"""Analyses how long it took to deliver messages, where the time was spent, and which were late.

The job can also run on any Spark cluster, for a requested job or without a job. Without a job, the
result is written only as Parquet files:

    spark-submit spark/jobs/latency_analytics.py --job 0123456789abcdef0123456789abcdef
    spark-submit spark/jobs/latency_analytics.py --from 2026-01-01 --slo-seconds 5 --output january
"""

import sys
from collections.abc import Sequence
from datetime import datetime, timedelta

from pyspark.sql import SparkSession

from app.domain.job import JobKind, JobResult
from app.domain.replay.coverage import milliseconds
from app.storage.latency_columns import LATENCY
from app.storage.spark.trace_rows import first_traced, lost_entries
from spark.jobs import alone
from spark.jobs.results import kept
from spark.traces import looked_at, traced
from spark.transforms.latency import by_subscription, fates
from spark.work import Work


def run(session: SparkSession, work: Work) -> JobResult:
    """Analyse how long deliveries took, and store the result.

    Raises:
        WorkStoppedError: The job was stopped before the analysis started.
    """
    work.progress.step("Following messages through their traces", done=0.1, until=0.95)
    lost = lost_entries(work.database_url, looked_at(work.scope))
    if lost:
        work.progress.report(
            f"{lost} entries of traces were lost in that time, and are not counted"
        )
    covered = _covered_from(work)
    entries = traced(session, work.database_url, work.scope)
    result = by_subscription(fates(entries, work.scope), work.scope.slo)
    messages, subscriptions = kept(result, LATENCY, work)
    work.progress.report(f"{messages} messages at {subscriptions} subscriptions")
    counts = {
        "messages": messages,
        "subscriptions": subscriptions,
        "lost": lost,
        "coveredFrom": milliseconds(covered),
    }
    return JobResult(counts=counts, output=work.output)


def _covered_from(work: Work) -> datetime:
    """Return the first moment in the requested time from which on there are traces.

    If there are no traces, return the end of the requested time.
    """
    start, end = work.scope.start, work.scope.end
    first = first_traced(work.database_url, work.scope) or end
    covered = min(max(start, first), end)
    if covered > start:
        work.progress.report(
            f"The first trace is of {covered.isoformat()}: of what ended before, nothing is known"
        )
    return covered


def main(arguments: Sequence[str]) -> None:
    """Run the analysis with the arguments of `spark-submit`.

    Raises:
        SystemExit: The arguments are wrong, no database is configured, or the job that the
            arguments name has ended.
    """
    parser = alone.parser("How long messages took to their subscribers, and who was late.")
    parser.add_argument("--slo-seconds", type=float, help="what deliveries are held against")
    given = alone.parsed(parser, arguments)
    slo = None if given.slo_seconds is None else timedelta(seconds=given.slo_seconds)
    alone.carry_out(run, given, kind=JobKind.LATENCY_ANALYTICS, slo=slo)


if __name__ == "__main__":
    main(sys.argv[1:])
