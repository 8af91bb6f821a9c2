"""What a subscription would have had to send, had it other filters, and whether it could have.

Also on its own, on any cluster, for a simulation that was requested:

    spark-submit spark/jobs/simulation.py --job 0123456789abcdef0123456789abcdef
"""

import sys
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Final

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from app.domain.job import JobKind, JobResult
from app.domain.reach import Times
from app.domain.simulation import SimulationRequest
from app.storage.analytics_parts import SIMULATED
from app.storage.simulation_asking import simulation_asked_for
from spark.jobs.reached import gone, messages_of, reached
from spark.sinks import to_database, to_parquet
from spark.submitted import carry_out
from spark.transforms.simulation import (
    Judged,
    arrivals,
    by_minute,
    by_second,
    longest,
    queued,
)
from spark.work import Work

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def run(session: SparkSession, work: Work) -> JobResult:
    """Do it; WorkStoppedError, SimulationNotFoundError."""
    if work.claim is None:
        raise ValueError("A simulation is made for a job of the database")
    topic, request = simulation_asked_for(work.database_url, work.claim.job_id)
    work.progress.step("Judging messages", done=0.1)
    judged = _judged(topic, request)
    read = reached(work, topic, request.spans)
    times = Times(since_ms=judged.since_ms, until_ms=judged.until_ms)
    seconds = by_second(arrivals(messages_of(session, work, read, times=times), judged))
    waiting = queued(seconds, request.proposal.capacity, origin=judged.since_ms // 1_000)
    waiting = waiting.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        minutes = by_minute(waiting)
        to_parquet(minutes, f"{work.output}/minutes")
        to_database(minutes, SIMULATED, url=work.database_url, claim=work.claim)
        lost = gone(work, topic, request.spans, read=read)
        counts = _counts(waiting, request) | {"gone": request.gone + lost}
    finally:
        waiting.unpersist()
    work.progress.say(f"{counts['matched']} of {counts['read']} messages would be sent")
    return JobResult(counts=counts, output=work.output)


def _judged(topic: str, request: SimulationRequest) -> Judged:
    since_ms, until_ms = (
        (moment - _EPOCH) // _MILLISECOND for moment in (request.since, request.until)
    )
    return Judged(
        topic=topic,
        since_ms=since_ms,
        until_ms=until_ms,
        proposed=request.proposal.filters,
        present=request.present,
    )


def _counts(waiting: DataFrame, request: SimulationRequest) -> dict[str, int]:
    """What there is in all, as whole numbers: part of a message is one that waits."""
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
    """The largest backlog; nothing where nothing arrived."""
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
    carry_out(JobKind.SIMULATION, run, sys.argv[1:])
