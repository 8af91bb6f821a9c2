"""What this worker finished for a subscription since it began, over all cursors it ever had."""

from collections.abc import Iterable
from typing import NamedTuple, Protocol


class Finished(NamedTuple):
    """Messages that were finished, by what became of them, and the bytes that were delivered."""

    delivered: int = 0
    discarded: int = 0
    filtered: int = 0
    volume: int = 0

    def plus(self, other: "Finished") -> "Finished":
        """Both together."""
        # Spelt out: a worker has thousands of cursors.
        return Finished(
            self.delivered + other.delivered,
            self.discarded + other.discarded,
            self.filtered + other.filtered,
            self.volume + other.volume,
        )


class Finishing(Protocol):
    """A cursor, as far as it counts here."""

    in_flight: int

    def finished(self) -> Finished:
        """What it finished since it was opened."""


class Tally:
    """Adds up cursors. One that is closed counts on until nothing of it is in flight."""

    __slots__ = ("_leaving", "_over")

    def __init__(self) -> None:
        self._over = Finished()
        self._leaving: list[Finishing] = []

    def leave(self, cursor: Finishing) -> None:
        """It opens nothing more."""
        self._settle()
        self._leaving.append(cursor)

    def total(self, opened: Iterable[Finishing]) -> Finished:
        """What those that are `opened` have finished, and those that left."""
        self._settle()
        total = self._over
        for cursor in (*self._leaving, *opened):
            total = total.plus(cursor.finished())
        return total

    def _settle(self) -> None:
        """Let go of those with nothing in flight: their counts are final."""
        for cursor in self._leaving:
            if not cursor.in_flight:
                self._over = self._over.plus(cursor.finished())
        self._leaving = [cursor for cursor in self._leaving if cursor.in_flight]
