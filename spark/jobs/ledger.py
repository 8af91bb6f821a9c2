"""Counts the records of the log between two snapshots of subscriptions, for ledger entries.

One job makes the entries of many subscriptions, and reads each topic once for all of them. The
entries themselves are written at the end of the job: see `app.storage.insight.ledgers`. The job can
also run on any Spark cluster, for entries that were requested:

    spark-submit spark/jobs/ledger.py --job 0123456789abcdef0123456789abcdef
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce

from pyspark.sql import DataFrame, SparkSession

from app.domain.insight.ledger import books_of, spans_of
from app.domain.job import JobKind, JobResult
from app.domain.replay.retransmission import OffsetSpan
from app.storage.spark.analysis_parts import LEDGER_COUNTS, LEDGER_DISCARDS
from app.storage.spark.analysis_parts import counted as stored
from app.storage.spark.ledger_rows import OwnSpan, RequestedEntry, requested_entries
from spark.archives import archived_messages
from spark.jobs.reached import TopicStorage, adjoining, reached_in, storage_of
from spark.jobs.recorded import await_recorded
from spark.ledger_records import discarded, ledger_records, of_messages
from spark.sinks import spread_to_database, to_database
from spark.submitted import carry_out
from spark.transforms.ledger import LedgerAccount, counted, discards_by_reason, passed_discards
from spark.work import Work


def run(session: SparkSession, work: Work) -> JobResult:
    """Count the records and the discards of all requested ledger entries, and store the counts.

    Raises:
        WorkStoppedError: The work was stopped.
        NotKnownError: The recorder did not store the streams in time.
        JobNotFoundError: The job does not exist.
    """
    if work.claim is None:
        raise ValueError("An entry of a ledger is made for a job of the database")
    url, claim = work.database_url, work.claim
    entries = requested_entries(url, claim.job_id)
    await_recorded(work, merged(each for entry in entries for each in entry.request.streams))
    storage = storage_of(work, {entry.topic for entry in entries})
    accounts = [account_of(entry, storage[entry.topic]) for entry in entries]
    work.progress.step("Counting messages", done=0.1, until=0.8)
    records = _records(session, work, entries, storage=storage)
    spread_to_database(counted(records, accounts), LEDGER_COUNTS, url=url, claim=claim)
    work.progress.step("Counting discards", done=0.8, until=0.95)
    rows = discarded(session, url, [each for entry in entries for each in _own_spans(entry)])
    reasons = discards_by_reason(passed_discards(rows, accounts))
    to_database(reasons, LEDGER_DISCARDS, url=url, claim=claim)
    _, counts = stored(url, LEDGER_COUNTS, claim)
    _, discards = stored(url, LEDGER_DISCARDS, claim)
    work.progress.report(
        f"{counts} records and {discards} discards are counted, for {len(entries)} subscriptions"
    )
    return JobResult(counts={"entries": len(entries), "records": counts})


def account_of(entry: RequestedEntry, storage: TopicStorage) -> LedgerAccount:
    """Return the partitions and the ranges of offsets that are counted for a ledger entry.

    `storage` says where the messages of the entry's topic are.
    """
    spans = list(spans_of(entry.topic, entry.request))
    # The ranges may have gaps: offsets that are neither in the log nor in the archive. Leave out
    # all messages before the last gap, because the ledger counts them as gone.
    read = adjoining(reached_in(spans, storage))
    starts = {span.partition: span.start for span in read.log}
    for span in read.archived:
        starts[span.partition] = min(starts[span.partition], span.start)
    return LedgerAccount(
        topic=entry.topic,
        subscription_id=entry.subscription_id,
        books=tuple(books_of(entry.request)),
        dropped=frozenset(entry.request.dropped),
        starts=starts,
    )


def merged(spans: Iterable[OffsetSpan]) -> Sequence[OffsetSpan]:
    """Return, for each partition, one range of offsets that contains all its ranges in `spans`."""
    found: dict[tuple[str, int], OffsetSpan] = {}
    for span in spans:
        one = found.setdefault((span.topic, span.partition), span)
        found[span.topic, span.partition] = replace(
            one, start=min(one.start, span.start), end=max(one.end, span.end)
        )
    return list(found.values())


def _records(
    session: SparkSession,
    work: Work,
    entries: Sequence[RequestedEntry],
    *,
    storage: Mapping[str, TopicStorage],
) -> DataFrame:
    """Return all records that the entries count, each only once (columns `LEDGER_RECORDS`)."""
    spans = [
        span
        for entry in entries
        for span in spans_of(entry.topic, entry.request)
        if span.start < span.end
    ]
    in_log, archived = list[OffsetSpan](), list[DataFrame]()
    for topic, wanted in _by_topic(merged(spans)).items():
        read = reached_in(wanted, storage[topic])
        in_log += read.log
        if read.archived:
            found = archived_messages(session, read.folders, spans=read.archived)
            archived.append(of_messages(found, topic))
    records = ledger_records(session, work.database_url, log=work.log, spans=in_log)
    return reduce(DataFrame.unionByName, archived, records)


def _by_topic(spans: Iterable[OffsetSpan]) -> Mapping[str, Sequence[OffsetSpan]]:
    found: dict[str, list[OffsetSpan]] = {}
    for span in spans:
        found.setdefault(span.topic, []).append(span)
    return found


def _own_spans(entry: RequestedEntry) -> Iterable[OwnSpan]:
    for span in spans_of(entry.topic, entry.request):
        yield OwnSpan(entry.subscription_id, span.partition, span.start, span.end)


if __name__ == "__main__":
    carry_out([JobKind.LEDGER, JobKind.LEDGERS], run, sys.argv[1:])
