"""Places in the log that are not read on yet, for what reason, and since when."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from app.domain.message import Partition

# Most schemas that are waited for are there within a moment.
SHOWN_AFTER: Final = timedelta(seconds=5)


class Hold(NamedTuple):
    """Why a partition is not read on, and since when."""

    partition: Partition
    awaited: str
    since: datetime

    def __str__(self) -> str:
        since = self.since.isoformat(timespec="seconds")
        return f"Partition {self.partition.index} waits for {self.awaited} since {since}"


def _now() -> datetime:
    return datetime.now(UTC)


class Holds:
    """The held places: at most one of each partition's tail, and one of each catch-up read."""

    def __init__(self, clock: Callable[[], datetime] = _now) -> None:
        self._clock = clock
        self._held: dict[Partition, dict[int, Hold]] = {}

    def begin(self, partition: Partition, offset: int, awaited: str) -> None:
        """The messages at `offset` wait for `awaited`; since when is kept."""
        held = self._held.setdefault(partition, {})
        before = held.get(offset)
        held[offset] = Hold(partition, awaited, before.since if before else self._clock())

    def end(self, partition: Partition, offset: int) -> None:
        """The messages at `offset` go on."""
        held = self._held.get(partition, {})
        if offset in held:
            del held[offset]
        if not held:
            self._held.pop(partition, None)

    def forget(self, partition: Partition) -> None:
        """Nothing of the partition is held: nobody reads it, or it is read elsewhere."""
        self._held.pop(partition, None)

    def at(self, partition: Partition, offset: int) -> Hold | None:
        """Return what holds up a reader at `offset` for longer than a moment."""
        held = self._held.get(partition)
        hold = held.get(offset) if held else None
        if hold is None or self._clock() - hold.since < SHOWN_AFTER:
            return None
        return hold
