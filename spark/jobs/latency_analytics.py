"""How long messages took to their subscribers, where the time went, and who was late.

Also on its own, on any cluster; the result is then Parquet alone:

    spark-submit spark/jobs/latency_analytics.py --from 2026-01-01 --slo-seconds 5 --output january
"""

import sys
from collections.abc import Sequence
from datetime import timedelta

from pyspark.sql import SparkSession

from app.domain.job import JobResult
from app.storage.analytics_parts import LATENCY
from app.storage.latency_rows import lost_entries
from spark.jobs import alone
from spark.jobs.results import kept
from spark.traces import looked_at, traced
from spark.transforms.latency import by_subscription, fates
from spark.work import Work


def run(session: SparkSession, work: Work) -> JobResult:
    """Do it; WorkStoppedError when it is told to stop before it has begun."""
    work.progress.step("Following messages through their traces", done=0.1)
    lost = lost_entries(work.database_url, looked_at(work.scope))
    if lost:
        work.progress.say(f"{lost} entries of traces were lost in that time, and are not counted")
    entries = traced(session, work.database_url, work.scope)
    result = by_subscription(fates(entries, work.scope), work.scope.slo)
    messages, subscriptions = kept(result, LATENCY, work)
    work.progress.say(f"{messages} messages at {subscriptions} subscriptions")
    counts = {"messages": messages, "subscriptions": subscriptions, "lost": lost}
    return JobResult(counts=counts, output=work.output)


def main(arguments: Sequence[str]) -> None:
    """Do it as `spark-submit` is told to; SystemExit."""
    parser = alone.parser("How long messages took to their subscribers, and who was late.")
    parser.add_argument("--slo-seconds", type=float, help="what deliveries are held against")
    given = parser.parse_args(arguments)
    slo = None if given.slo_seconds is None else timedelta(seconds=given.slo_seconds)
    alone.carry_out(run, given, slo=slo)


if __name__ == "__main__":
    main(sys.argv[1:])
