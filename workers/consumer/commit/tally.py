"""Counts of the messages that this worker finished for a subscription, over all cursors."""

from collections.abc import Iterable
from typing import NamedTuple, Protocol


class Finished(NamedTuple):
    """Counts of finished messages by outcome, and the delivered bytes."""

    delivered: int = 0
    discarded: int = 0
    filtered: int = 0
    volume: int = 0

    def plus(self, other: "Finished") -> "Finished":
        """Return the sum of both counts."""
        # Add each field explicitly, which is fast. A worker has thousands of cursors.
        return Finished(
            self.delivered + other.delivered,
            self.discarded + other.discarded,
            self.filtered + other.filtered,
            self.volume + other.volume,
        )


class Finishing(Protocol):
    """The part of a cursor that `Tally` needs."""

    in_flight: int

    def finished(self) -> Finished:
        """Return the counts of messages that were finished since the cursor was opened."""


class Tally:
    """Adds up the counts of a subscription's cursors.

    It keeps a closed cursor until the cursor has no request in flight, because its counts may still
    change.
    """

    __slots__ = ("_leaving", "_over")

    def __init__(self) -> None:
        self._over = Finished()
        self._leaving: list[Finishing] = []

    def leave(self, cursor: Finishing) -> None:
        """Called when `cursor` opens no more messages. Its counts may still change."""
        self._settle()
        self._leaving.append(cursor)

    def total(self, opened: Iterable[Finishing]) -> Finished:
        """Return the sum over the `opened` cursors and the closed cursors."""
        self._settle()
        total = self._over
        for cursor in (*self._leaving, *opened):
            total = total.plus(cursor.finished())
        return total

    def _settle(self) -> None:
        """Replace closed cursors with nothing in flight by their counts, which are final."""
        for cursor in self._leaving:
            if not cursor.in_flight:
                self._over = self._over.plus(cursor.finished())
        self._leaving = [cursor for cursor in self._leaving if cursor.in_flight]
