"""Counts the records of the log between two snapshots of a subscription, for a ledger entry.

The entry itself is written at the end of the job: see `app.storage.insight.ledgers`. The job can
also run on any cluster, for an entry that was requested:

    spark-submit spark/jobs/ledger.py --job 0123456789abcdef0123456789abcdef
"""

import sys

from pyspark.sql import SparkSession

from app.domain.insight.ledger import books_of, spans_of
from app.domain.job import JobKind, JobResult
from app.storage.spark.analysis_parts import LEDGER_COUNTS, LEDGER_DISCARDS
from app.storage.spark.analysis_parts import counted as stored
from app.storage.spark.ledger_rows import requested_ledger
from spark.jobs.reached import adjoining, messages_of, reached
from spark.jobs.recorded import await_recorded
from spark.records import discarded
from spark.sinks import spread_to_database, to_database
from spark.submitted import carry_out
from spark.transforms.ledger import LedgerAccount, counted, discards_by_reason, passed_discards
from spark.work import Work


def run(session: SparkSession, work: Work) -> JobResult:
    """Count the records and the discards, and store the counts.

    Raises:
        WorkStoppedError: The work was stopped.
        NotKnownError: The streams are not recorded yet.
        JobNotFoundError: The job does not exist.
    """
    if work.claim is None:
        raise ValueError("An entry of a ledger is made for a job of the database")
    subscription_id, topic, request = requested_ledger(work.database_url, work.claim.job_id)
    await_recorded(work, request.streams)
    account = LedgerAccount(
        subscription_id=subscription_id,
        books=tuple(books_of(request)),
        dropped=frozenset(request.dropped),
    )
    spans = [span for span in spans_of(topic, request) if span.start < span.end]
    work.progress.step("Counting messages", done=0.1, until=0.8)
    # Count only messages after the last gap. Messages before a gap count as gone.
    records = messages_of(session, work, adjoining(reached(work, topic, spans)))
    found = counted(records, account)
    spread_to_database(found, LEDGER_COUNTS, url=work.database_url, claim=work.claim)
    work.progress.step("Counting discards", done=0.8, until=0.95)
    rows = discarded(session, work.database_url, subscription_id=subscription_id, spans=spans)
    reasons = discards_by_reason(passed_discards(rows, account))
    to_database(reasons, LEDGER_DISCARDS, url=work.database_url, claim=work.claim)
    _, records_read = stored(work.database_url, LEDGER_COUNTS, work.claim)
    _, discards = stored(work.database_url, LEDGER_DISCARDS, work.claim)
    work.progress.report(f"{records_read} records and {discards} discards are counted")
    return JobResult(counts={"entry": request.number, "records": records_read})


if __name__ == "__main__":
    carry_out(JobKind.LEDGER, run, sys.argv[1:])
