"""The messages that this worker finished for a subscription, over all its past and open cursors."""

from collections.abc import Iterable
from typing import NamedTuple, Protocol


class Finished(NamedTuple):
    """Counts of finished messages by outcome, and the delivered bytes."""

    delivered: int = 0
    discarded: int = 0
    filtered: int = 0
    volume: int = 0

    def plus(self, other: "Finished") -> "Finished":
        """Return the sum of both."""
        # Written out for speed: a worker has thousands of cursors.
        return Finished(
            self.delivered + other.delivered,
            self.discarded + other.discarded,
            self.filtered + other.filtered,
            self.volume + other.volume,
        )


class Finishing(Protocol):
    """The part of a cursor that is counted here."""

    in_flight: int

    def finished(self) -> Finished:
        """The messages finished since the cursor was opened."""


class Tally:
    """Adds up cursors. A closed cursor counts until none of its requests is in flight."""

    __slots__ = ("_leaving", "_over")

    def __init__(self) -> None:
        self._over = Finished()
        self._leaving: list[Finishing] = []

    def leave(self, cursor: Finishing) -> None:
        """Note that `cursor` opens no more messages."""
        self._settle()
        self._leaving.append(cursor)

    def total(self, opened: Iterable[Finishing]) -> Finished:
        """The sum of the `opened` cursors and of those that left."""
        self._settle()
        total = self._over
        for cursor in (*self._leaving, *opened):
            total = total.plus(cursor.finished())
        return total

    def _settle(self) -> None:
        """Drop the cursors with nothing in flight: their counts are final."""
        for cursor in self._leaving:
            if not cursor.in_flight:
                self._over = self._over.plus(cursor.finished())
        self._leaving = [cursor for cursor in self._leaving if cursor.in_flight]
