"""Computes which offsets a job has archived.

Retention may have removed some offsets before they were read.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from app.domain.replay.retransmission import OffsetSpan


class ArchivedRun(NamedTuple):
    """The messages that a job read from a partition.

    `messages` is their number. The last run without a gap is from `start` to before `end`.
    """

    start: int
    end: int
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Archived:
    """The archived part of the range that a job read in a partition.

    `missed` is how many earlier offsets are not archived.
    """

    span: OffsetSpan
    missed: int = 0


def without_gaps(
    span: OffsetSpan, doubtful: Mapping[int, int], *, runs: Mapping[int, ArchivedRun]
) -> Archived:
    """Return the offsets that were read without gaps.

    `runs` are the messages that were read. In `doubtful` partitions, offsets below the given offset
    may be missing. Only the last run without a gap counts. Earlier messages stay in their files,
    but are not used, because nobody could see there which offsets are missing.
    """
    before = doubtful.get(span.partition)
    if before is None:
        return Archived(span=span)
    run = runs.get(span.partition)
    there = 0 if run is None else run.messages
    start = before if run is None or run.end < before else run.start
    return Archived(span=replace(span, start=start), missed=before - span.start - there)
