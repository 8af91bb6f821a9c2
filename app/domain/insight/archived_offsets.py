"""What of the offsets that a job was to archive it has archived, where retention was quicker."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from app.domain.replay.retransmission import OffsetSpan


class ArchivedRun(NamedTuple):
    """Of the messages of a partition that were read, the last without a gap, and how many of all.

    Those are from `start` to before `end`.
    """

    start: int
    end: int
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Archived:
    """What counts as archived of a span; of what comes before, so many offsets were `missed`."""

    span: OffsetSpan
    missed: int = 0


def without_gaps(
    span: OffsetSpan, doubtful: Mapping[int, int], *, runs: Mapping[int, ArchivedRun]
) -> Archived:
    """What of it was read; of partitions in `doubtful`, what is before that offset may not be.

    `runs` are those of what was read of that. Only the last without a gap counts: what was read
    before it stays in its file, but no reader is to take the gap for messages.
    """
    before = doubtful.get(span.partition)
    if before is None:
        return Archived(span=span)
    run = runs.get(span.partition)
    there = 0 if run is None else run.messages
    start = before if run is None or run.end < before else run.start
    return Archived(span=replace(span, start=start), missed=before - span.start - there)
