"""What a ledger says of a time that is asked for: how much of it entries are about, and their sums.

Entries are about whole times between two looks, so what they say is of the time that they cover:
that may begin before, and end after, what was asked for. It is said of the whole only when they
cover the whole.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from app.domain.insight.ledger import Doubt, LedgerEntry, Sums, following

DEFAULT: Final = timedelta(days=31)


class Window(NamedTuple):
    """A time, from `since` to before `until`."""

    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """What all entries that are about some of the time that was `asked` for say together.

    `entries` are the newest of these `count`, oldest first; `sums` and `doubts` are of all, and of
    the time that they have `covered`: None, if there are none.
    """

    asked: Window
    covered: Window | None
    count: int
    sums: Sums
    doubts: tuple[Doubt, ...] = ()
    entries: tuple[LedgerEntry, ...] = ()

    @property
    def is_proved(self) -> bool:
        """Whether entries cover all of the time that was asked for, and nothing is doubtful."""
        return self.covered is not None and not self.doubts


class Survey:
    """Adds up the entries of a time, as they come: oldest first, each once.

    Nothing was to be said of the subscription before it was `born`. It keeps the `newest` entries.
    """

    def __init__(self, asked: Window, *, born: datetime | None, newest: int) -> None:
        self._asked = asked
        self._from = asked.since if born is None else max(asked.since, born)
        self._covered: Window | None = None
        self._is_whole = True
        self._sums = Sums()
        self._doubts: set[Doubt] = set()
        self._count = 0
        self._entries = deque[LedgerEntry](maxlen=newest)

    def add(self, entries: Sequence[LedgerEntry]) -> None:
        """The next entries."""
        for entry in entries:
            before = self._covered
            if before is None:
                self._is_whole = entry.since <= self._from
            elif entry.since != before.until:
                # One between them is not there any more.
                self._is_whole = False
            self._covered = Window(entry.since if before is None else before.since, entry.until)
            self._sums = entry.sums if before is None else following([self._sums, entry.sums])
            self._doubts.update(entry.doubts)
        self._count += len(entries)
        self._entries.extend(entries)

    def ledger(self) -> Ledger:
        """What they say together."""
        covered = self._covered
        is_covered = covered is not None and covered.until >= self._asked.until
        found = set(self._doubts)
        if not (is_covered and self._is_whole):
            found.add(Doubt.NOT_COVERED)
        return Ledger(
            asked=self._asked,
            covered=covered,
            count=self._count,
            sums=self._sums,
            doubts=tuple(each for each in Doubt if each in found),
            entries=tuple(self._entries),
        )


def requested_window(
    since: datetime | None, until: datetime | None, *, last: datetime | None, now: datetime
) -> Window:
    """The time that is meant, where the end or the beginning is not said.

    It ends with the last midnight (UTC), up to which there should be an entry by now, or with the
    `last` entry, if that came later; now, if it would end before it begins. It begins DEFAULT
    before its end.
    """
    if until is None:
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        due = midnight if last is None else max(midnight, last)
        until = now if since is not None and since >= due else due
    return Window(until - DEFAULT if since is None else since, until)
