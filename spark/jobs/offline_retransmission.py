"""Publishes the messages of a past time again, from the log or the archive (republishing).

The job can also run on any Spark cluster, for a task that was requested:

    spark-submit spark/jobs/offline_retransmission.py --job 0123456789abcdef0123456789abcdef
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own documents use this name

from app.domain.errors import LogUnavailableError
from app.domain.job import Claim, JobKind, JobResult
from app.domain.replay.republishing import RepublishRequest
from app.domain.replay.retransmission import OffsetSpan
from app.log.ends import topic_bounds
from app.storage.spark.republishing_parts import PartLostError
from app.storage.spark.republishing_tasks import (
    begin_parts,
    complete_parts,
    republished_counts,
    requested_republishing,
    topic_as_requested,
)
from spark.jobs.reached import Reached, gone, messages_of, reached
from spark.jobs.republishing import Republishing
from spark.lanes import long_tasks_max
from spark.submitted import carry_out
from spark.work import Work

# How long to wait until the runner stops the job, after a Spark task has lost its partition. A
# Spark task loses its partition if, for example, the job is cancelled. The task may read this in
# the database earlier than the runner.
_HEARD_WITHIN: Final = timedelta(seconds=20)
# The maximum number of Spark tasks. One task publishes all messages of a partition, so that they
# stay in order.
_TASKS_MAX: Final = 200


def run(session: SparkSession, work: Work) -> JobResult:
    """Publish the requested messages to the target topic.

    Raises:
        WorkStoppedError: The work was stopped.
        JobNotFoundError: The job does not exist.
        TopicNotFoundError: The source or target topic does not exist, or was created again since
            the request.
        LogUnavailableError: The log cannot be reached.
    """
    if work.claim is None:
        raise ValueError("Messages are published for a job of the database")
    url, claim = work.database_url, work.claim
    request = requested_republishing(url, claim.job_id)
    republishing = _republishing(work, request, claim)
    positions = begin_parts(url, claim.job_id, request.spans, ends=_ends(work, request.target))
    name = f"Publishing messages of {request.source} to {request.target}"
    work.progress.step(name, done=0.1, until=0.95)
    read = _published(session, work, request, positions=positions, republishing=republishing)
    complete_parts(url, claim)
    lost = gone(work, request.source, request.spans, read=read)
    counts = {**republished_counts(url, claim.job_id), "gone": request.gone + lost}
    work.progress.report(f"{counts['written']} messages are published, {counts['refused']} refused")
    return JobResult(counts=counts)


def _republishing(work: Work, request: RepublishRequest, claim: Claim) -> Republishing:
    url = work.database_url
    return Republishing(
        database_url=url,
        log=work.log,
        claim=claim,
        source=topic_as_requested(url, request.source, request.source_created_at),
        target=topic_as_requested(url, request.target, request.target_created_at),
    )


def _published(
    session: SparkSession,
    work: Work,
    request: RepublishRequest,
    *,
    positions: Mapping[int, int],
    republishing: Republishing,
) -> Reached:
    """Publish the messages of the request that are not published yet.

    `positions` has, by partition of the source topic, the offset at which to continue.

    Returns:
        Where all messages of the request are: in the log, or in the archive.
    """
    left = _left(request.spans, positions)
    all_of_it = reached(work, request.source, request.spans)
    read = reached(work, request.source, left)
    found = messages_of(session, work, read, times=request.times)
    messages = in_order(found, request, tasks_max=long_tasks_max(session))
    try:
        messages.foreachPartition(republishing)
    except Exception as exc:
        if PartLostError.__name__ in str(exc):
            work.progress.rest(_HEARD_WITHIN)
        raise
    return all_of_it


def in_order(messages: DataFrame, request: RepublishRequest, *, tasks_max: int) -> DataFrame:
    """Return the messages of the requested time, with each partition in order (columns `MESSAGES`).

    One Spark task gets all messages of a partition, from the log and from many files, sorted by
    offset. So messages with the same key stay in order.
    """
    times, at = request.times, F.col("timestamp_ms")
    inside = messages.where((at >= F.lit(times.since_ms)) & (at < F.lit(times.until_ms)))
    tasks = min(_TASKS_MAX, tasks_max, max(1, len(request.spans)))
    return inside.repartition(tasks, "partition").sortWithinPartitions("partition", "offset")


def _left(spans: Sequence[OffsetSpan], positions: Mapping[int, int]) -> Sequence[OffsetSpan]:
    return [
        replace(span, start=min(span.end, max(span.start, positions[span.partition])))
        for span in spans
    ]


def _ends(work: Work, topic: str) -> Mapping[int, int]:
    found = topic_bounds(work.database_url, [topic], work.log)
    if topic not in found:
        raise LogUnavailableError(f"The log has no topic {topic}")
    return {index: each.end for index, each in found[topic].items()}


if __name__ == "__main__":
    carry_out([JobKind.OFFLINE_RETRANSMISSION], run, sys.argv[1:])
