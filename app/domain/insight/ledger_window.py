"""Combines the ledger entries about a requested time.

An entry is about the whole time between two snapshots, which may begin before the requested time
and end after it. The sums are about the time of all these entries. They prove the requested time
only if there are entries for all of it.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from app.domain.insight.ledger import Doubt, LedgerEntry, Sums, following

DEFAULT: Final = timedelta(days=31)


class Window(NamedTuple):
    """A time from `since` to before `until`."""

    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """What all entries that overlap a requested time prove together.

    Attributes:
        requested: The requested time.
        covered: The time of all these entries together; None if there are no entries.
        count: How many entries there are.
        sums: The counts of all these entries together.
        doubts: The doubts of all these entries.
        entries: The newest of these entries, in the order of time.
    """

    requested: Window
    covered: Window | None
    count: int
    sums: Sums
    doubts: tuple[Doubt, ...] = ()
    entries: tuple[LedgerEntry, ...] = ()

    @property
    def is_proved(self) -> bool:
        """Whether there are entries for all of the requested time, without doubts."""
        return self.covered is not None and not self.doubts


class Survey:
    """Adds up the entries of a requested time. They are added in the order of time, each once.

    The time before `born`, when the subscription was created, needs no entry. The result lists only
    the newest entries, at most `newest` of them.
    """

    def __init__(self, requested: Window, *, born: datetime | None, newest: int) -> None:
        self._requested = requested
        self._from = requested.since if born is None else max(requested.since, born)
        self._covered: Window | None = None
        self._is_whole = True
        self._sums = Sums()
        self._doubts: set[Doubt] = set()
        self._count = 0
        self._entries = deque[LedgerEntry](maxlen=newest)

    def add(self, entries: Sequence[LedgerEntry]) -> None:
        """Add the next entries, which are later than all added before."""
        for entry in entries:
            before = self._covered
            if before is None:
                self._is_whole = entry.since <= self._from
            elif entry.since != before.until:
                # Remember that there is a gap: the last added entry does not end where this entry
                # begins, so an entry between them no longer exists.
                self._is_whole = False
            self._covered = Window(entry.since if before is None else before.since, entry.until)
            self._sums = entry.sums if before is None else following([self._sums, entry.sums])
            self._doubts.update(entry.doubts)
        self._count += len(entries)
        self._entries.extend(entries)

    def ledger(self) -> Ledger:
        """Return the combined result."""
        covered = self._covered
        is_covered = covered is not None and covered.until >= self._requested.until
        found = set(self._doubts)
        if not (is_covered and self._is_whole):
            found.add(Doubt.NOT_COVERED)
        return Ledger(
            requested=self._requested,
            covered=covered,
            count=self._count,
            sums=self._sums,
            doubts=tuple(each for each in Doubt if each in found),
            entries=tuple(self._entries),
        )


def requested_window(
    since: datetime | None, until: datetime | None, *, last: datetime | None, now: datetime
) -> Window:
    """Return the requested time, with a default for each limit that is None.

    By default the time ends at the last midnight (UTC). If the last entry ended later, at `last`,
    the time ends there. If `since` is not before this default, the time ends now. By default the
    time begins 31 days before its end.
    """
    if until is None:
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        due = midnight if last is None else max(midnight, last)
        until = now if since is not None and since >= due else due
    return Window(until - DEFAULT if since is None else since, until)
