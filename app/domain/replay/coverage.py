"""Where the offsets of a partition are: in the log, in its topic's archive, or in neither.

The log has them from its start on; what is before that may be archived. Nobody knows the times of
what is in neither, so that there it is said what of it may be of a time, at most.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Stretch(NamedTuple):
    """Offsets from `start` to before `end`."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """A time, in milliseconds since the epoch: from `since` to before `until`; None: no bound."""

    since_ms: int | None = None
    until_ms: int | None = None


class Dated(NamedTuple):
    """What the archive of a partition has of a time, by its pieces: each is of a day, in one file.

    `first` is the start of the first piece with anything since then, and `first_ms` the time of its
    earliest message; `end` that of the last piece with anything before the end. None: nothing.
    """

    first: int | None = None
    first_ms: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCoverage:
    """Where the offsets of a stretch are; `gone` is how many of them are nowhere."""

    log: Stretch
    archived: tuple[Stretch, ...]
    gone: int

    @property
    def first(self) -> int:
        """The first that is somewhere, or the end."""
        return self.archived[0].start if self.archived else self.log.start


def reach(wanted: Stretch, *, log_start: int, kept: Sequence[Stretch]) -> LogCoverage:
    """Where they are; `kept` is archived, in its order and without doubles.

    Each offset is in one place: what the log has is not read in the archive.
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
    """The first offset before the log's start that may be of the time since then.

    What comes before something older is older.
    """
    first = log_start if dated.first is None else min(dated.first, log_start)
    older = [min(each.end, first) for each in kept if each.start < first]
    if older:
        return max(older)
    is_older = dated.first_ms is not None and dated.first_ms < since_ms
    return first if is_older else 0


def until_then(kept: Sequence[Stretch], dated: Dated, *, log_start: int) -> int:
    """The offset before the log's start from which on nothing is of the time until then.

    What comes behind something newer is newer.
    """
    last = 0 if dated.end is None else min(dated.end, log_start)
    newer = [max(each.start, last) for each in kept if each.end > last]
    return min([*newer, log_start])


def merged(stretches: Iterable[Stretch]) -> Sequence[Stretch]:
    """The same offsets, in their order, in as few stretches as there can be."""
    found: list[Stretch] = []
    for each in sorted(stretches):
        if found and each.start <= found[-1].end:
            found[-1] = Stretch(found[-1].start, max(found[-1].end, each.end))
        elif each.start < each.end:
            found.append(each)
    return found


def milliseconds(moment: datetime) -> int:
    """An aware time in milliseconds since the epoch; 0 for what is before it."""
    return max((moment - _EPOCH) // timedelta(milliseconds=1), 0)


def _common(left: Stretch, right: Stretch) -> Stretch | None:
    start, end = max(left.start, right.start), min(left.end, right.end)
    return Stretch(start, end) if start < end else None
