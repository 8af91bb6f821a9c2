"""Finds where the messages for a job are: in the log, or only in the archive."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession

from app.domain.replay.coverage import Stretch, Times, merged, reach
from app.domain.replay.retransmission import OffsetSpan
from app.log.ends import topic_bounds
from app.storage.spark.archive_parts import KeptFolder, kept_folders
from spark.archives import archived_messages, of_time
from spark.records import messages
from spark.work import Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """Where the requested offsets of a topic are: in the log, or in the archive.

    Attributes:
        log: The ranges of offsets to read from the log.
        archived: The ranges of offsets to read from the archive.
        folders: The paths of the archive folders that have these ranges.
        starts: By partition, the first offset that the log still has.
    """

    log: tuple[OffsetSpan, ...] = ()
    archived: tuple[OffsetSpan, ...] = ()
    folders: tuple[str, ...] = ()
    starts: Mapping[int, int]


def reached(work: Work, topic: str, spans: Sequence[OffsetSpan]) -> Reached:
    """Return where the ranges of offsets of a topic are now: in the log, or in the archive.

    Raises:
        LogUnavailableError: The log cannot be reached.
        StorageUnavailableError: The database cannot be reached.
    """
    return reached_in(spans, storage_of(work, [topic])[topic])


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStorage:
    """Where the messages of a topic are.

    Attributes:
        starts: By partition, the first offset that the log still has. Empty if the topic has no
            archive.
        folders: The valid folders of the topic's archive.
    """

    starts: Mapping[int, int]
    folders: tuple[KeptFolder, ...]


def storage_of(work: Work, topics: Collection[str]) -> Mapping[str, TopicStorage]:
    """Return where the messages of each topic are now: in the log, or in the archive.

    Raises:
        LogUnavailableError: The log cannot be reached.
        StorageUnavailableError: The database cannot be reached.
    """
    archived = kept_folders(work.database_url, topics).keys()
    # Read the first offsets of the log before the archive folders. So messages that the log drops
    # between the two reads are found in the folders.
    bounds = topic_bounds(work.database_url, archived, work.log) if archived else {}
    folders = kept_folders(work.database_url, archived) if archived else {}
    return {
        topic: TopicStorage(
            starts={index: each.start for index, each in bounds.get(topic, {}).items()},
            folders=tuple(folders.get(topic, ())),
        )
        for topic in topics
    }


def reached_in(spans: Sequence[OffsetSpan], storage: TopicStorage) -> Reached:
    """Return where ranges of offsets are: in the log, or in the archive.

    `storage` says where the messages of the topic are.
    """
    starts, folders = storage.starts, storage.folders
    if all(span.start >= starts.get(span.partition, 0) for span in spans):
        return Reached(log=tuple(spans), starts=starts)
    in_log, archived = [], []
    for span in spans:
        index = span.partition
        kept = merged(each.spans[index] for each in folders if index in each.spans)
        wanted = Stretch(span.start, span.end)
        found = reach(wanted, log_start=starts.get(index, 0), kept=kept)
        in_log.append(replace(span, start=found.log.start, end=found.log.end))
        archived += [replace(span, start=each.start, end=each.end) for each in found.archived]
    return Reached(
        log=tuple(in_log),
        archived=tuple(archived),
        folders=tuple(each.path for each in folders if _has_any(each, archived)),
        starts=starts,
    )


def adjoining(read: Reached) -> Reached:
    """Return `read`, but only with archived ranges that end exactly where the log starts."""
    starts = {span.partition: span.start for span in read.log}
    kept = tuple(each for each in read.archived if each.end == starts.get(each.partition))
    return replace(read, archived=kept)


def messages_of(
    session: SparkSession, work: Work, read: Reached, *, times: Times | None = None
) -> DataFrame:
    """Return the messages at the offsets in `read` (columns `MESSAGES`).

    With `times`, return only messages that were published in these times.
    """
    wanted = times or Times()
    in_log = messages(session, work.database_url, log=work.log, spans=read.log)
    in_log = of_time(in_log, wanted)
    if not read.archived:
        return in_log
    archived = archived_messages(session, read.folders, spans=read.archived, times=wanted)
    return archived.unionByName(in_log)


def gone(work: Work, topic: str, spans: Sequence[OffsetSpan], *, read: Reached) -> int:
    """Return how many offsets of `spans` are gone: neither the log nor the archive has them.

    The progress report of the job gets a line for each partition with such offsets.
    """
    starts = log_starts(work, topic)
    total = 0
    for span in spans:
        index, wanted = span.partition, Stretch(span.start, span.end)
        kept = [Stretch(each.start, each.end) for each in read.archived if each.partition == index]
        lost = reach(wanted, log_start=starts.get(index, 0), kept=kept).gone
        if lost:
            work.progress.report(
                f"{lost} offsets of partition {index}, of {span.start} to before"
                f" {span.end}, are neither in the log nor in the archive"
            )
        total += lost
    return total


def log_starts(work: Work, topic: str) -> Mapping[int, int]:
    """Return, by partition, the first offset of a topic that the log still has.

    Raises:
        LogUnavailableError: The log cannot be reached.
    """
    bounds = topic_bounds(work.database_url, [topic], work.log)
    return {index: each.start for index, each in bounds.get(topic, {}).items()}


def _has_any(folder: KeptFolder, spans: Sequence[OffsetSpan]) -> bool:
    return any(
        stretch.start < span.end and span.start < stretch.end
        for span in spans
        if (stretch := folder.spans.get(span.partition)) is not None
    )
