"""Which offsets a job has archived, if retention removed some before they were read."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from app.domain.replay.retransmission import OffsetSpan


class ArchivedRun(NamedTuple):
    """Messages read from a partition: the last run without a gap, and how many in total.

    The last run is from `start` to before `end`.
    """

    start: int
    end: int
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Archived:
    """The archived part of a partition's span.

    `missed` is how many earlier offsets are not archived.
    """

    span: OffsetSpan
    missed: int = 0


def without_gaps(
    span: OffsetSpan, doubtful: Mapping[int, int], *, runs: Mapping[int, ArchivedRun]
) -> Archived:
    """Return the offsets that were read without gaps.

    In `doubtful` partitions, offsets below the given offset may be missing. `runs` are the messages
    that were read. Only the last run without a gap counts. Earlier messages stay in their files,
    but are not used: a reader could not tell the gap from messages.
    """
    before = doubtful.get(span.partition)
    if before is None:
        return Archived(span=span)
    run = runs.get(span.partition)
    there = 0 if run is None else run.messages
    start = before if run is None or run.end < before else run.start
    return Archived(span=replace(span, start=start), missed=before - span.start - there)
