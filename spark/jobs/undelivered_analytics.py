"""Analyses undelivered messages: counts by common properties, and groups of similar failures.

The job can also run on any Spark cluster, for a requested job or without a job. Without a job, the
results are written only as Parquet files:

    spark-submit spark/jobs/undelivered_analytics.py --job 0123456789abcdef0123456789abcdef
    spark-submit spark/jobs/undelivered_analytics.py --from 2026-01-01 --output s3a://bucket/january
"""

import sys
from collections.abc import Sequence

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from app.domain.job import JobKind, JobResult
from app.storage.spark.analysis_parts import FAILURES, UNDELIVERED
from spark.jobs import alone
from spark.jobs.passing import near_failures, passing
from spark.jobs.results import kept
from spark.sources import undelivered
from spark.transforms.fields import distinguishing, with_fields
from spark.transforms.undelivered import clustered, counted, described
from spark.work import Work


def run(session: SparkSession, work: Work) -> JobResult:
    """Analyse the undelivered messages, and store the results.

    Raises:
        WorkStoppedError: The work was stopped between two steps.
    """
    # Keep the discards in memory or on disk, so that they are read only once for both results. The
    # discards contain no bodies. Spark does not adapt the shuffles of kept data, but this data has
    # no shuffle.
    discards = described(undelivered(session, work.database_url, work.scope))
    discards = discards.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        work.progress.step("Counting undelivered messages", done=0.1, until=0.6)
        messages, counts = kept(counted(discards), UNDELIVERED, work)
        work.progress.step("Finding clusters of failures", done=0.6, until=0.95)
        clusters = _clusters(session, work, discards)
    finally:
        discards.unpersist()
    work.progress.report(f"{messages} messages in {counts} counts and {clusters} clusters")
    found = {"messages": messages, "counts": counts, "clusters": clusters}
    return JobResult(counts=found, output=work.output)


def _clusters(session: SparkSession, work: Work, discards: DataFrame) -> int:
    """Store the groups of similar failures, each with the fields that distinguish its messages.

    Return the number of groups.
    """
    clusters = clustered(discards)
    if work.claim is None:
        # Without a job, do not compare discarded messages with others in the log, because it is not
        # known where the log is.
        return kept(with_fields(clusters, None), FAILURES, work)[1]
    # Keep these few messages in memory or on disk, so that the log is read only once for all
    # comparisons. Spark does not adapt the shuffles of kept data, but this data has no shuffle.
    near = near_failures(session, work, clusters).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        others = passing(near, discards)
        fields = distinguishing(clusters, failing=discards, passing=others)
        return kept(with_fields(clusters, fields), FAILURES, work)[1]
    finally:
        near.unpersist()


def main(arguments: Sequence[str]) -> None:
    """Run the analysis with the arguments of `spark-submit`.

    The counts of the results are written to standard output as JSON.
    """
    parser = alone.parser("Count undelivered messages, find clusters.")
    alone.carry_out(run, alone.parsed(parser, arguments), kind=JobKind.UNDELIVERED_ANALYTICS)


if __name__ == "__main__":
    main(sys.argv[1:])
