"""Copies the new messages of the log into the archive, each once, and removes old archive folders.

The job first writes the files of a folder. When the job is done, one transaction marks the folder
as valid, and stores up to which offsets the topic is archived. If a runner is killed before that,
nobody reads the files that it has written, and a later job removes them after a day.

The job can also run on any Spark cluster, without a runner:

    spark-submit spark/jobs/archive.py
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own documents use this name

from app.domain.insight.archived_offsets import ArchivedRun, without_gaps
from app.domain.job import Claim, JobKind, JobResult
from app.domain.replay.retransmission import OffsetSpan
from app.log.ends import topic_bounds
from app.log.interface import Bounds
from app.storage.spark.archive_parts import (
    ArchivedTopic,
    FileRetention,
    Folder,
    Piece,
    archived_topics,
    archived_until,
    begin_folder,
    describe_folder,
    expire_folders,
    forget_folder,
    removable_folders,
)
from spark.archives import of_partition, read_archived, remove_folder, write_archived
from spark.jobs.reached import log_starts
from spark.records import SPAN_MAX, messages
from spark.submitted import carry_out
from spark.transforms.archive import last_runs, pieces, placed
from spark.work import Work

_TASKS_MAX: Final = 512


class ArchiveDamagedError(Exception):
    """The messages in the written files are not exactly those that were read from the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _New:
    """The part of a topic that is not archived yet.

    Attributes:
        topic: The topic.
        spans: The ranges of offsets to archive.
        missed: How many offsets before these ranges the log dropped before they were archived.
    """

    topic: ArchivedTopic
    spans: tuple[OffsetSpan, ...]
    missed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """What a job has archived of a topic.

    Attributes:
        pieces: The archived messages, by day and partition.
        missed: How many offsets the log dropped while the job read the topic.
    """

    pieces: tuple[Piece, ...]
    missed: int


def run(session: SparkSession, work: Work, *, patience: FileRetention | None = None) -> JobResult:
    """Archive all new messages, and remove old files.

    `patience` says how long to keep files that are no longer valid.

    Raises:
        WorkStoppedError: The work was stopped.
        LogUnavailableError: The log cannot be reached.
        StorageUnavailableError: The database cannot be reached.
    """
    if work.claim is None:
        raise ValueError("The archive is written for a job of the database")
    work.progress.step("Removing what was kept long enough", done=0.05, until=0.05)
    removed = _tidied(session, work, patience or FileRetention())
    new = _new(work)
    written = [
        _archived(session, work, each, claim=work.claim, part=(number, len(new)))
        for number, each in enumerate(new)
    ]
    pieces_written = [piece for each in written for piece in each.pieces]
    counts = {
        "topics": len(new),
        "messages": sum(piece.messages for piece in pieces_written),
        "bytes": sum(piece.size for piece in pieces_written),
        "missed": sum(each.missed for each in new) + sum(each.missed for each in written),
        "removed": removed,
    }
    return JobResult(counts=counts, output=work.archive)


def _new(work: Work) -> Sequence[_New]:
    topics = archived_topics(work.database_url, work.scope.topic)
    bounds = topic_bounds(work.database_url, [topic.name for topic in topics], work.log)
    until = archived_until(work.database_url, [topic.name for topic in topics])
    found = [
        _new_of(work, topic, bounds.get(topic.name, {}), until=until.get(topic.name, {}))
        for topic in topics
    ]
    return [each for each in found if each.spans]


def _new_of(
    work: Work, topic: ArchivedTopic, bounds: Mapping[int, Bounds], *, until: Mapping[int, int]
) -> _New:
    missed, spans = 0, []
    for index, bound in sorted(bounds.items()):
        at = until.get(index, bound.start)
        missed += max(0, bound.start - at)
        start = max(at, bound.start)
        if start < bound.end:
            spans.append(OffsetSpan(topic=topic.name, partition=index, start=start, end=bound.end))
    _report_missed(work, topic.name, missed)
    return _New(topic=topic, spans=tuple(spans), missed=missed)


def _archived(
    session: SparkSession, work: Work, new: _New, *, claim: Claim, part: tuple[int, int]
) -> _Written:
    """Write the new messages of one topic to the archive.

    `part` is (n, m), which means that this is topic n of m topics, counted from 0.

    Returns:
        What was archived, and how many messages were missed.
    """
    url, name = work.database_url, new.topic.name
    done, until = (0.05 + 0.9 * number / part[1] for number in (part[0], part[0] + 1))
    work.progress.step(f"Archiving {name}", done=done, until=until)
    folder = Folder(
        claim.job_id, claim.attempt, name, f"{work.archive}/{name}/{claim.job_id}-{claim.attempt}"
    )
    begin_folder(url, folder, new.topic, spans=new.spans)
    source = messages(session, url, log=work.log, spans=new.spans)
    write_archived(into_files(source, new.spans), folder.path)
    # Count the messages in the written files, not those that were read from the log, because later
    # readers get exactly the content of the files.
    files = read_archived(session, folder.path)
    found = tuple(Piece(*row) for row in pieces(files).collect())
    _require_each_once(new.spans, found)
    # Find the offsets that the log may have dropped during the read. Messages can be missing in the
    # files only among these offsets.
    doubtful = _taken(work, new, found)
    runs = _last_runs(files, doubtful) if doubtful else {}
    kept = [without_gaps(span, doubtful, runs=runs) for span in new.spans]
    missed = sum(each.missed for each in kept)
    _report_missed(work, name, missed)
    describe_folder(url, folder, found, spans=[each.span for each in kept])
    return _Written(pieces=found, missed=missed)


def into_files(source: DataFrame, spans: Sequence[OffsetSpan]) -> DataFrame:
    """Return messages in the form of the archive, divided into tasks of about SPAN_MAX offsets.

    Each task writes its own files. An hourly job has few tasks, so it writes few files, even if the
    topic has many partitions. `spans` are the ranges of offsets that the messages come from.
    """
    offsets = sum(span.end - span.start for span in spans)
    return placed(source.coalesce(min(_TASKS_MAX, -(-offsets // SPAN_MAX))))


def _taken(work: Work, new: _New, found: Sequence[Piece]) -> Mapping[int, int]:
    """Return, by partition, the offset before which messages may be missing in the files.

    The log may have dropped these messages during the read. Partitions in which nothing can be
    missing are left out. The log in the database has a message at every offset. So if there are
    fewer messages than offsets, messages are missing. In Kafka, some offsets have no message. So
    only messages before the log's first offset can be missing.
    """
    starts = log_starts(work, new.topic.name)
    taken = {}
    for span in new.spans:
        start = min(starts.get(span.partition, 0), span.end)
        there = sum(piece.messages for piece in found if piece.partition == span.partition)
        if work.log.kafka_bootstrap is None and there < span.end - span.start:
            start = span.end
        if start > span.start:
            taken[span.partition] = start
    return taken


def _last_runs(files: DataFrame, before: Mapping[int, int]) -> Mapping[int, ArchivedRun]:
    some = files.where(F.col("offset") < of_partition(before))
    return {row[0]: ArchivedRun(*row[1:]) for row in last_runs(some).collect()}


def _require_each_once(spans: Sequence[OffsetSpan], found: Sequence[Piece]) -> None:
    """Check that the written messages are in these ranges, and that none was written twice.

    Raises:
        ArchiveDamagedError: A message is outside of the ranges, or was written twice.
    """
    for span in spans:
        parts = [piece for piece in found if piece.partition == span.partition]
        inside = all(span.start <= piece.start and piece.end <= span.end for piece in parts)
        if not inside or sum(piece.messages for piece in parts) > span.end - span.start:
            raise ArchiveDamagedError(f"More than {span} was written: {parts}")


def _report_missed(work: Work, topic: str, missed: int) -> None:
    if missed:
        work.progress.report(f"{missed} messages of {topic} left the log before they were archived")


def _tidied(session: SparkSession, work: Work, patience: FileRetention) -> int:
    """Remove archive folders that are no longer valid; return how many were removed."""
    expire_folders(work.database_url)
    gone = 0
    for folder in removable_folders(work.database_url, patience):
        try:
            remove_folder(session, folder.path)
        except Py4JError as exc:
            # Continue after an error, because archiving new messages is more important. The next
            # job tries again to remove the folder.
            work.progress.report(f"{folder.path} stays: {next(iter(str(exc).splitlines()), '')}")
        else:
            forget_folder(work.database_url, folder)
            gone += 1
    return gone


if __name__ == "__main__":
    carry_out([JobKind.ARCHIVE], run, sys.argv[1:])
