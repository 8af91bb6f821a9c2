"""Simulates what a subscription would have sent with other filters or another rate.

The job can also run on any Spark cluster, for a simulation that was requested:

    spark-submit spark/jobs/simulation.py --job 0123456789abcdef0123456789abcdef
"""

import sys
from collections.abc import Mapping
from dataclasses import replace
from math import ceil
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own documents use this name

from app.domain.insight.simulation import SimulationRequest
from app.domain.job import JobKind, JobResult
from app.domain.replay.coverage import Times, milliseconds
from app.storage.spark.analysis_parts import SIMULATED
from app.storage.spark.republishing_tasks import topic_as_it_is
from app.storage.spark.simulation_requests import requested_simulation
from spark.jobs.reached import gone, messages_of, reached
from spark.sinks import through_parquet, to_database, to_parquet
from spark.submitted import carry_out
from spark.transforms.differing import first_differing
from spark.transforms.simulation import (
    JudgedMessages,
    arrivals,
    by_minute,
    by_second,
    longest,
    queued,
)
from spark.work import Work


def run(session: SparkSession, work: Work) -> JobResult:
    """Simulate the requested settings, and store the result.

    Raises:
        WorkStoppedError: The work was stopped.
        JobNotFoundError: The job does not exist.
    """
    if work.claim is None:
        raise ValueError("A simulation is made for a job of the database")
    topic, request = requested_simulation(work.database_url, work.claim.job_id)
    work.progress.step("Judging messages", done=0.1, until=0.95)
    judged = replace(_judged(topic, request), source=topic_as_it_is(work.database_url, topic))
    read = reached(work, topic, request.spans)
    times = Times(since_ms=judged.since_ms, until_ms=judged.until_ms)
    arrived = arrivals(messages_of(session, work, read, times=times), judged)
    if judged.differs:
        # Keep the judged messages in memory or on disk, so that they are read only once for both
        # the sums and the examples. Spark would not adapt shuffles in kept data. That does no harm
        # here, because this data is made without a shuffle.
        arrived = arrived.persist(StorageLevel.MEMORY_AND_DISK)
    capacity, origin = request.proposal.capacity, judged.since_ms // 1_000
    try:
        seconds = through_parquet(by_second(arrived), f"{work.output}/seconds")
        waiting = queued(seconds, capacity, origin=origin)
        minutes = by_minute(waiting)
        to_parquet(minutes, f"{work.output}/minutes")
        to_database(minutes, SIMULATED, url=work.database_url, claim=work.claim)
        lost = gone(work, topic, request.spans, read=read)
        counts = _counts(waiting, request) | {"gone": request.gone + lost}
        samples = _samples(arrived) if judged.differs else ()
    finally:
        arrived.unpersist()
    work.progress.report(f"{counts['matched']} of {counts['read']} messages would be sent")
    return JobResult(counts=counts, output=work.output, samples=samples)


def _judged(topic: str, request: SimulationRequest) -> JudgedMessages:
    return JudgedMessages(
        topic=topic,
        since_ms=milliseconds(request.since),
        until_ms=milliseconds(request.until),
        proposed=request.proposal.filters,
        present=request.present,
    )


def _samples(arrived: DataFrame) -> tuple[Mapping[str, Any], ...]:
    """Return examples of messages that only the current or only the proposed filters match.

    Messages that only the proposed filters match come first. An example has the fields of
    `Differing`.
    """
    both = [first_differing(arrived, is_added=is_added) for is_added in (True, False)]
    return tuple(row.asDict() for each in both for row in each.collect())


def _counts(waiting: DataFrame, request: SimulationRequest) -> dict[str, int]:
    """Return the counts of the whole simulation. Fractions of messages are rounded up.

    `waiting` has the state of the simulated queue after each second.
    """
    names = ("read", "matched", "present", "added", "size")
    sums = [F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in names]
    total = waiting.agg(*sums, F.max("empty").alias("empty"), F.max("matched")).first()
    if total is None:
        raise RuntimeError("Spark has no sums")
    read, matched, present, added, size, empty, peak = total
    counts = {
        "read": read,
        "matched": matched,
        "added": added,
        "dropped": present - (matched - added),
        "bytes": size,
        "peakPerSecond": peak or 0,
    }
    return counts | _queue(waiting, request, empty)


def _queue(waiting: DataFrame, request: SimulationRequest, empty: float | None) -> dict[str, int]:
    """Return the size, the delay and the times of the largest backlog; zeros if no message arrived.

    `empty` is the time at which the simulated queue finally becomes empty, in seconds since the
    epoch.
    """
    worst = longest(waiting).first()
    if worst is None or empty is None:
        return {"backlog": 0, "delayMs": 0, "left": 0}
    backlog, second, drained = worst
    capacity = request.proposal.capacity
    left = max(0.0, empty - request.until.timestamp()) * capacity
    return {
        "backlog": ceil(backlog - 1e-6),
        "delayMs": ceil(backlog / capacity * 1_000 - 1e-6),
        "backlogAtMs": second * 1_000,
        "drainedAtMs": ceil(drained * 1_000 - 1e-3),
        "left": ceil(left - 1e-6),
    }


if __name__ == "__main__":
    carry_out([JobKind.SIMULATION], run, sys.argv[1:])
