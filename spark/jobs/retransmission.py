"""Chooses the messages of a retransmission. A worker then sends these messages again.

The job can also run on any Spark cluster, for a retransmission that was requested:

    spark-submit spark/jobs/retransmission.py --job 0123456789abcdef0123456789abcdef
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own documents use this name

from app.domain.job import Claim, JobKind, JobResult
from app.domain.replay.retransmission import OffsetSpan, Only
from app.storage.spark.analysis_parts import RUNS
from app.storage.spark.republishing_tasks import topic_as_it_is
from app.storage.spark.resent_rows import other_retransmissions
from app.storage.spark.retransmission_requests import (
    ChoiceRequest,
    Totals,
    counts_of,
    first_traced,
    lost_traces,
    requested_choice,
    totals,
)
from app.storage.spark.retransmission_rows import Discards
from spark.archives import of_partition
from spark.jobs.reached import Reached, gone, messages_of, reached
from spark.jobs.recorded import NotKnownError, await_recorded
from spark.jobs.staging import CHOSEN_SHARE, stage
from spark.records import finished, resent, unsent_discards
from spark.sinks import spread_to_database
from spark.submitted import carry_out
from spark.transforms.retransmission import (
    MessageChoice,
    chosen,
    each_once,
    ended,
    foreseen,
    missing,
    runs,
    sources,
)
from spark.work import Work


def run(session: SparkSession, work: Work) -> JobResult:
    """Choose the messages to send again, and store the choice.

    Raises:
        WorkStoppedError: The work was stopped.
        NotKnownError: The outcome of some messages is unknown.
        RetransmissionNotFoundError: The retransmission does not exist.
        LogUnavailableError: The log cannot be reached.
        NoRoomError: Too many archived messages would wait to be sent.
        ArchiveChangedError: The archive changed during the job.
    """
    if work.claim is None:
        raise ValueError("A retransmission is chosen for a job of the database")
    requested = requested_choice(work.database_url, work.claim.job_id)
    await_recorded(work, requested.request.streams)
    spans = looked_at(work, requested)
    read = reached(work, requested.topic, spans) if spans else Reached(starts={})
    until = CHOSEN_SHARE if read.archived else 0.95
    work.progress.step("Choosing messages", done=0.1, until=until)
    wanted = selected(session, work, requested, read=read)
    if requested.request.dry_run:
        result = _foreseen(wanted, read)
    else:
        total = _stored(wanted, read, url=work.database_url, claim=work.claim)
        work.progress.report(
            f"{total.messages} messages are to be sent again, of {total.size} bytes"
        )
        stage(session, work, read, total=total, times=requested.request.times)
        result = JobResult(counts=counts_of(total))
    lost = gone(work, requested.topic, spans, read=read) if spans else 0
    counts = {**result.counts, "gone": sum(requested.request.gone) + lost}
    if requested.request.selection.only is Only.MISSING:
        counts["untraced"] = _untraced(work, requested, spans)
    return replace(result, counts=counts)


def looked_at(work: Work, requested: ChoiceRequest) -> Sequence[OffsetSpan]:
    """Return the ranges of offsets from which messages are chosen.

    If only discarded messages are requested, the result is empty, because these messages are read
    from the database.

    Raises:
        NotKnownError: Some traces were lost, so it is unknown which messages are missing.
    """
    match requested.request.selection.only:
        case Only.ALL:
            return requested.request.spans
        case Only.UNDELIVERED:
            return ()
        case Only.MISSING:
            return _traced(work, requested)


def selected(
    session: SparkSession, work: Work, requested: ChoiceRequest, *, read: Reached
) -> DataFrame:
    """Return the messages that the requested retransmission must send (columns `CHOSEN`).

    `read` says where the messages are.
    """
    request, selection = requested.request, requested.request.selection
    url, subscription_id = work.database_url, requested.subscription_id
    choice = MessageChoice(
        topic=requested.topic,
        source=topic_as_it_is(url, requested.topic),
        filters=requested.filters + selection.filters,
        keys=selection.keys,
        message_ids=selection.message_ids,
    )
    match selection.only:
        case Only.ALL:
            return chosen(messages_of(session, work, read, times=request.times), choice)
        case Only.UNDELIVERED:
            wanted = Discards(
                subscription_id=subscription_id,
                since=request.since,
                until=request.until,
                statuses=selection.statuses,
                reason=selection.reason,
            )
            return each_once(chosen(unsent_discards(session, url, wanted), choice))
        case Only.MISSING:
            candidates = chosen(messages_of(session, work, read, times=request.times), choice)
            done = finished(session, url, subscription_id=subscription_id, since=request.since)
            return _not_resent(session, work, requested, left=missing(candidates, done), done=done)


def _not_resent(
    session: SparkSession, work: Work, requested: ChoiceRequest, *, left: DataFrame, done: DataFrame
) -> DataFrame:
    """Return the messages of `left` that no other retransmission of the subscription sends.

    `done` has the positions of the messages that the subscription has finished.
    """
    url = work.database_url
    others = other_retransmissions(url, requested.subscription_id, but=requested.id)
    if others.settled:
        left = missing(left, sources(resent(session, url, others.settled)))
    if others.stopped:
        # Leave out the messages that stopped retransmissions have sent and whose copies are
        # finished. In the traces, the end of a message that was sent again is at the position of
        # its copy.
        left = missing(left, sources(ended(resent(session, url, others.stopped), done)))
    return left


def _stored(wanted: DataFrame, read: Reached, *, url: str, claim: Claim) -> Totals:
    """Store which messages are chosen. Return the totals of these messages."""
    found = runs(wanted).withColumn("archived", _is_archived("start", read))
    spread_to_database(found, RUNS, url=url, claim=claim)
    return totals(url, claim)


def _is_archived(name: str, read: Reached) -> Column:
    """Return the condition that only the archive has the message at the offset in column `name`."""
    if not read.archived:
        return F.lit(False)  # noqa: FBT003 - Spark needs a column
    return F.coalesce(F.col(name) < of_partition(read.starts), F.lit(False))  # noqa: FBT003 - Spark needs a column


def _traced(work: Work, requested: ChoiceRequest) -> list[OffsetSpan]:
    """Return the requested ranges of offsets, without the offsets before the first trace.

    Raises:
        NotKnownError: Some traces since the start of the requested time were lost.
    """
    if lost := lost_traces(work.database_url, requested.request.since):
        message = f"{lost} entries of traces were lost in that time: nobody knows what is missing"
        raise NotKnownError(message)
    first = first_traced(work.database_url, requested.subscription_id)
    return [
        replace(span, start=min(max(span.start, first.get(span.partition, span.end)), span.end))
        for span in requested.request.spans
    ]


def _untraced(work: Work, requested: ChoiceRequest, spans: Sequence[OffsetSpan]) -> int:
    """Return how many requested offsets were not checked, because they have no traces.

    `spans` are the requested ranges with traces. For each partition with offsets that were not
    checked, the progress report of the job gets a line.
    """
    total = 0
    for wanted, traced in zip(requested.request.spans, spans, strict=True):
        if blind := traced.start - wanted.start:
            work.progress.report(
                f"{blind} offsets of partition {wanted.partition}, from {wanted.start} on, are"
                " older than its first trace: nobody knows whether they are missing"
            )
        total += blind
    return total


def _foreseen(wanted: DataFrame, read: Reached) -> JobResult:
    """Return how many messages a dry run has chosen, and the first chosen messages as examples."""
    [row] = foreseen(wanted.withColumn("archived", _is_archived("offset", read))).collect()
    counts = {name: row[name] for name in ("messages", "bytes", "archived")}
    samples = tuple(_sample(each.asDict()) for each in row["samples"] or ())
    return JobResult(counts=counts, samples=samples)


def _sample(row: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "messageId": row["message_id"],
        "partition": row["partition"],
        "offset": row["offset"],
        "timestamp": row["timestamp_ms"],
        "size": row["size"],
    }


if __name__ == "__main__":
    carry_out([JobKind.RETRANSMISSION], run, sys.argv[1:])
