"""Which messages of a retransmission are to be sent again: a worker sends them.

Also on its own, on any cluster, for a retransmission that was requested:

    spark-submit spark/jobs/retransmission.py --job 0123456789abcdef0123456789abcdef
"""

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from app.domain.job import JobKind, JobResult
from app.domain.retransmission import SAMPLES_MAX, Only, Span
from app.storage.analytics_parts import RUNS
from app.storage.retransmission_choosing import (
    Asked,
    asked_for,
    first_traced,
    lost_traces,
    totals,
)
from app.storage.retransmission_rows import Discards
from spark.jobs.recorded import NotKnownError, await_recorded
from spark.records import finished, messages, unsent_discards
from spark.sinks import spread_to_database
from spark.submitted import carry_out
from spark.transforms.retransmission import Choice, chosen, each_once, missing, runs
from spark.work import Work


def run(session: SparkSession, work: Work) -> JobResult:
    """Do it; WorkStoppedError, NotKnownError, RetransmissionNotFoundError."""
    if work.claim is None:
        raise ValueError("A retransmission is chosen for a job of the database")
    asked = asked_for(work.database_url, work.claim.job_id)
    await_recorded(work, asked.request.streams)
    work.progress.step("Choosing messages", done=0.1)
    wanted = selected(session, work, asked)
    if asked.request.dry_run:
        return _looked_at(wanted)
    spread_to_database(runs(wanted), RUNS, url=work.database_url, claim=work.claim)
    count, size = totals(work.database_url, work.claim)
    work.progress.say(f"{count} messages are to be sent again, of {size} bytes")
    return JobResult(counts={"messages": count, "bytes": size})


def selected(session: SparkSession, work: Work, asked: Asked) -> DataFrame:
    """The messages that are asked for (columns CHOSEN)."""
    request, selection = asked.request, asked.request.selection
    url = work.database_url
    choice = Choice(
        topic=asked.topic,
        filters=asked.filters + selection.filters,
        keys=selection.keys,
        message_ids=selection.message_ids,
    )
    match selection.only:
        case Only.ALL:
            return chosen(messages(session, url, log=work.log, spans=request.spans), choice)
        case Only.UNDELIVERED:
            wanted = Discards(
                subscription_id=asked.subscription_id,
                since=request.since,
                until=request.until,
                statuses=selection.statuses,
            )
            return each_once(chosen(unsent_discards(session, url, wanted), choice))
        case Only.MISSING:
            spans, whose = _traced(work, asked), asked.subscription_id
            done = finished(session, url, subscription_id=whose, since=request.since)
            return missing(chosen(messages(session, url, log=work.log, spans=spans), choice), done)


def _traced(work: Work, asked: Asked) -> list[Span]:
    """What of the spans the traces speak of; NotKnownError when some were lost since then."""
    if lost := lost_traces(work.database_url, asked.request.since):
        message = f"{lost} entries of traces were lost in that time: nobody knows what is missing"
        raise NotKnownError(message)
    first = first_traced(work.database_url, asked.subscription_id)
    return [
        replace(span, start=min(max(span.start, first.get(span.partition, span.end)), span.end))
        for span in asked.request.spans
    ]


def _looked_at(wanted: DataFrame) -> JobResult:
    """How many they are, and the first of them."""
    wanted = wanted.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        total = wanted.agg(F.count(F.lit(1)), F.sum("size")).first()
        order = ("timestamp_ms", "partition", "offset")
        first = wanted.orderBy(*order).limit(SAMPLES_MAX).collect()
    finally:
        wanted.unpersist()
    count, size = total or (0, 0)
    samples = tuple(_sample(row.asDict()) for row in first)
    return JobResult(counts={"messages": count or 0, "bytes": size or 0}, samples=samples)


def _sample(row: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "messageId": row["message_id"],
        "partition": row["partition"],
        "offset": row["offset"],
        "timestamp": row["timestamp_ms"],
        "size": row["size"],
    }


if __name__ == "__main__":
    carry_out(JobKind.RETRANSMISSION, run, sys.argv[1:])
