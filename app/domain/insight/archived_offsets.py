"""Computes which offsets a job has archived.

Retention may have removed some offsets from the log before the job read them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from app.domain.replay.retransmission import OffsetSpan


class ArchivedRun(NamedTuple):
    """The messages that a job read from a partition, in which offsets may be missing.

    `messages` is the number of messages. The offsets from `start` to before `end` are the last ones
    without a gap.
    """

    start: int
    end: int
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Archived:
    """The offsets of a partition that a job has archived.

    `missed` is how many offsets before `span` the job should have archived, but could not read.
    """

    span: OffsetSpan
    missed: int = 0


def without_gaps(
    span: OffsetSpan, doubtful: Mapping[int, int], *, runs: Mapping[int, ArchivedRun]
) -> Archived:
    """Return the offsets that count as archived, after a job has read the range `span`.

    Only the last range without a gap counts. Messages before this range stay in their files, but
    are not used, because the files do not show which offsets are missing.

    Args:
        span: The offsets of a partition that the job was to read.
        doubtful: For each partition in which offsets may be missing, an offset. All missing offsets
            are below this offset.
        runs: For each of these partitions, the messages that the job read below this offset.
    """
    before = doubtful.get(span.partition)
    if before is None:
        return Archived(span=span)
    run = runs.get(span.partition)
    there = 0 if run is None else run.messages
    start = before if run is None or run.end < before else run.start
    return Archived(span=replace(span, start=start), missed=before - span.start - there)
