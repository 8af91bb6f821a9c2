"""Offsets at which reading waits, with the reason and the start of each wait."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from app.domain.message import Partition

# A wait is shown only after this time. Most waits for schemas end sooner.
SHOWN_AFTER: Final = timedelta(seconds=5)


class Hold(NamedTuple):
    """One wait: what the messages of a partition wait for (`awaited`, a text), and since when."""

    partition: Partition
    awaited: str
    since: datetime

    def __str__(self) -> str:
        since = self.since.isoformat(timespec="seconds")
        return f"Partition {self.partition.index} waits for {self.awaited} since {since}"


def _now() -> datetime:
    return datetime.now(UTC)


class Holds:
    """All current waits of messages for what is needed to decode them, such as a schema.

    A partition has at most one wait for its newest messages, and one for each catch-up read.
    """

    def __init__(self, clock: Callable[[], datetime] = _now) -> None:
        self._clock = clock
        self._held: dict[Partition, dict[int, Hold]] = {}

    def begin(self, partition: Partition, offset: int, awaited: str) -> None:
        """Start a wait: the messages at `offset` wait for `awaited`.

        If the wait is already running, its start time stays.
        """
        held = self._held.setdefault(partition, {})
        before = held.get(offset)
        held[offset] = Hold(partition, awaited, before.since if before else self._clock())

    def end(self, partition: Partition, offset: int) -> None:
        """End the wait at `offset`."""
        held = self._held.get(partition, {})
        if offset in held:
            del held[offset]
        if not held:
            self._held.pop(partition, None)

    def forget(self, partition: Partition) -> None:
        """End all waits of the partition, because nobody reads it here any more."""
        self._held.pop(partition, None)

    def at(self, partition: Partition, offset: int) -> Hold | None:
        """Return the wait of the messages at `offset`, if it already takes SHOWN_AFTER."""
        held = self._held.get(partition)
        hold = held.get(offset) if held else None
        if hold is None or self._clock() - hold.since < SHOWN_AFTER:
            return None
        return hold
