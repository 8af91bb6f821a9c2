"""Finds the offsets for a retransmission that the log and the archive have now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from app.domain.errors import ValidationFailedError
from app.domain.message import Partition
from app.domain.replay.coverage import (
    Dated,
    Stretch,
    Times,
    milliseconds,
    reach,
    since_then,
    until_then,
)
from app.domain.replay.retransmission import SHARE_DEFAULT, OffsetSpan, Selection
from app.log.interface import Bounds, MessageLog
from app.services.log_positions import EPOCH, bounds_of, offsets_at
from app.storage.catalogue.topics import TopicRepository
from app.storage.database import Database
from app.storage.insight.archive_coverage import ArchiveCoverageRepository


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedSpans:
    """The request for messages to send again: by time, or by offsets.

    For each partition, `offsets` has the first offset, and the offset before which the range ends.
    None in place of the second offset means the end of the partition.
    """

    since: datetime | None = None
    until: datetime | None = None
    offsets: Mapping[int, tuple[int, int | None]] | None = None
    selection: Selection = field(default_factory=Selection)
    share: float = SHARE_DEFAULT
    rate: float | None = None
    dry_run: bool = False

    @property
    def times(self) -> Times:
        """The requested times. If offsets are requested, the times have no limits."""
        if self.offsets is not None:
            return Times()
        return Times(
            since_ms=None if self.since is None else milliseconds(self.since),
            until_ms=None if self.until is None else milliseconds(self.until),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedOffsets:
    """The offsets of a topic that the archive has, by partition.

    `kept` has all archived offsets. `dated` has only offsets of the requested time.
    """

    kept: Mapping[int, Sequence[Stretch]] = field(default_factory=dict)
    dated: Mapping[int, Dated] = field(default_factory=dict)


class FoundSpans(NamedTuple):
    """Ranges of offsets that still exist.

    `gone` says for each range how many requested offsets before this range are gone.
    """

    spans: Sequence[OffsetSpan]
    gone: Sequence[int]


async def spans_of_time(
    database: Database, log: MessageLog, *, topic: str, wanted: WantedSpans
) -> FoundSpans:
    """Return the ranges of offsets whose messages may be from the requested time.

    The log or the archive has these messages.

    Raises:
        TopicNotFoundError: The topic does not exist.
        LogUnavailableError: The log cannot be reached.
        StorageUnavailableError: The database cannot be reached.
    """
    bounds = await bounds_of(log, await log.partitions(topic))
    spans = await spans_in_log(log, bounds, wanted)
    # Read the bounds of the partitions again. Retention may have removed messages from the log
    # meanwhile.
    bounds = await bounds_of(log, list(bounds))
    starts = {each.index: bound.start for each, bound in bounds.items()}
    archive = ArchivedOffsets()
    if any(starts.values()):
        archive = await archived(database, topic, wanted.times)
        spans = [before_log(each, wanted, starts=starts, archive=archive) for each in spans]
    return found_spans(spans, starts=starts, archive=archive)


async def spans_in_log(
    log: MessageLog, bounds: Mapping[Partition, Bounds], wanted: WantedSpans
) -> list[OffsetSpan]:
    """Return the requested range of offsets in each partition, up to the end of the log.

    If a time is requested, each range has only offsets that the log has.

    Raises:
        ValidationFailedError: A value is not valid.
        LogUnavailableError: The log cannot be reached.
    """
    partitions = sorted(bounds)
    if wanted.offsets is not None:
        requested = wanted.offsets
        if unknown := sorted(requested.keys() - {each.index for each in partitions}):
            raise ValidationFailedError.of("offsets", f"there is no partition {unknown[0]}")
    else:
        requested = await _offsets_of_time(log, bounds, wanted)
    spans = []
    for partition in partitions:
        bound = bounds[partition]
        start, end = requested.get(partition.index, (bound.end, None))
        end = bound.end if end is None else min(end, bound.end)
        spans.append(
            OffsetSpan(
                topic=partition.topic,
                partition=partition.index,
                start=min(start, end),
                end=end,
            )
        )
    return spans


async def _offsets_of_time(
    log: MessageLog, bounds: Mapping[Partition, Bounds], wanted: WantedSpans
) -> Mapping[int, tuple[int, int | None]]:
    """Return, for each partition, the offsets where messages of the requested time begin and end.

    The end is mostly None, which means the end of the partition. The clocks of publishers differ,
    so there may be messages of the requested time after the first newer message. But if the log
    has lost older messages, and now starts with newer messages than requested, it is assumed to
    have lost all messages of the requested time. Then the range in the log is empty.
    """
    starts = await offsets_at(log, sorted(bounds), wanted.since or EPOCH)
    if wanted.until is None:
        return {each.index: (start, None) for each, start in starts.items()}
    ends = await offsets_at(log, sorted(bounds), wanted.until)
    before = {each for each, bound in bounds.items() if ends[each] <= bound.start > 0}
    return {each.index: (starts[each], ends[each] if each in before else None) for each in starts}


async def archived(database: Database, topic: str, times: Times) -> ArchivedOffsets:
    """Return the offsets of the topic that the archive has.

    Raises:
        TopicNotFoundError: The topic does not exist.
        StorageUnavailableError: The database cannot be reached.
    """
    async with database.transaction() as session:
        found = await TopicRepository(session).get(topic)
        repository = ArchiveCoverageRepository(session)
        return ArchivedOffsets(
            kept=await repository.kept(found), dated=await repository.dated(found, times)
        )


def before_log(
    span: OffsetSpan, wanted: WantedSpans, *, starts: Mapping[int, int], archive: ArchivedOffsets
) -> OffsetSpan:
    """Return the range `span`, extended by offsets from before the start of the log.

    Only the archive may have these offsets. Their messages may be from the requested time.
    """
    times, log_start = wanted.times, starts[span.partition]
    if times.since_ms is None or span.start > log_start:
        return span
    kept = archive.kept.get(span.partition, ())
    dated = archive.dated.get(span.partition, Dated())
    start = since_then(kept, dated, since_ms=times.since_ms, log_start=log_start)
    end = span.end
    if times.until_ms is not None and span.end <= log_start:
        end = until_then(kept, dated, log_start=log_start)
    return replace(span, start=start, end=max(start, end))


def found_spans(
    spans: Sequence[OffsetSpan], *, starts: Mapping[int, int], archive: ArchivedOffsets
) -> FoundSpans:
    """Return each range from its first offset that the log or the archive still has.

    The result also has the number of offsets that are left out for this reason. `starts` has the
    first offset that the log has in each partition.
    """
    begun, gone = [], []
    for span in spans:
        kept = archive.kept.get(span.partition, ())
        wanted = Stretch(span.start, span.end)
        first = reach(wanted, log_start=starts[span.partition], kept=kept).first
        begun.append(replace(span, start=first))
        gone.append(first - span.start)
    return FoundSpans(begun, gone)
