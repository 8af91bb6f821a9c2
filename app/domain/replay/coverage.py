"""Finds where the messages of a partition are: in the log, in the topic's archive, or in neither.

The log has all offsets from its start on. Earlier offsets may be in the archive. If neither has an
offset, the time of its message is unknown, so the message may belong to a requested time.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Stretch(NamedTuple):
    """A range of offsets, from `start` to before `end`."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """A time from `since_ms` to before `until_ms`, in milliseconds since the epoch.

    None means that there is no limit.
    """

    since_ms: int | None = None
    until_ms: int | None = None


class Dated(NamedTuple):
    """The part of a partition's archive that may have messages of a requested time.

    The archive consists of pieces. Each piece is a file with messages of one day.

    Attributes:
        first: The first offset of the first piece with messages after the start of the requested
            time.
        first_ms: The time of the earliest message in that piece.
        end: The offset after the last piece with messages before the end of the requested time.
            Each of the three fields is None if there is no such piece.
    """

    first: int | None = None
    first_ms: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCoverage:
    """Where the offsets of a range are.

    Attributes:
        log: The offsets that the log has.
        archived: The offsets that only the archive has.
        gone: How many offsets are in neither.
    """

    log: Stretch
    archived: tuple[Stretch, ...]
    gone: int

    @property
    def first(self) -> int:
        """The first offset that the log or the archive has; without one, the end of the range."""
        return self.archived[0].start if self.archived else self.log.start


def reach(wanted: Stretch, *, log_start: int, kept: Sequence[Stretch]) -> LogCoverage:
    """Return where the offsets of the range `wanted` are.

    `kept` are the archived offsets, in order and without duplicates. An offset that is in both the
    log and the archive counts as in the log.
    """
    before = Stretch(wanted.start, max(wanted.start, min(wanted.end, log_start)))
    archived = tuple(cut for each in kept if (cut := _common(each, before)) is not None)
    there = sum(each.end - each.start for each in archived)
    return LogCoverage(
        log=Stretch(before.end, max(before.end, wanted.end)),
        archived=archived,
        gone=before.end - before.start - there,
    )


def since_then(kept: Sequence[Stretch], dated: Dated, *, since_ms: int, log_start: int) -> int:
    """Return the first offset before the log's start that may be from `since_ms` or later.

    The result assumes that messages are in the order of time, so that all messages before a message
    that is too old are too old, too.
    """
    first = log_start if dated.first is None else min(dated.first, log_start)
    older = [min(each.end, first) for each in kept if each.start < first]
    if older:
        return max(older)
    is_older = dated.first_ms is not None and dated.first_ms < since_ms
    return first if is_older else 0


def until_then(kept: Sequence[Stretch], dated: Dated, *, log_start: int) -> int:
    """Return the offset, at most the log's start, from which on all messages are too late.

    The result assumes that messages are in the order of time, so that all messages after a message
    that is too late are too late, too.
    """
    last = 0 if dated.end is None else min(dated.end, log_start)
    newer = [max(each.start, last) for each in kept if each.end > last]
    return min([*newer, log_start])


def merged(stretches: Iterable[Stretch]) -> Sequence[Stretch]:
    """Return ranges with the same offsets, in order. Ranges that overlap or touch are joined."""
    found: list[Stretch] = []
    for each in sorted(stretches):
        if found and each.start <= found[-1].end:
            found[-1] = Stretch(found[-1].start, max(found[-1].end, each.end))
        elif each.start < each.end:
            found.append(each)
    return found


def milliseconds(moment: datetime) -> int:
    """Return a time (with time zone) in ms since the epoch; 0 for times before the epoch."""
    return max((moment - _EPOCH) // timedelta(milliseconds=1), 0)


def _common(left: Stretch, right: Stretch) -> Stretch | None:
    start, end = max(left.start, right.start), min(left.end, right.end)
    return Stretch(start, end) if start < end else None
