"""Where the reading of a partition is delayed: the offset, the reason, and since when."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from app.domain.message import Partition

# A delay is shown to users only after this time. Most delays by schemas end sooner.
SHOWN_AFTER: Final = timedelta(seconds=5)


class Hold(NamedTuple):
    """One delay of a partition: for what its messages wait (`awaited`, a text), and since when."""

    partition: Partition
    awaited: str
    since: datetime

    def __str__(self) -> str:
        since = self.since.isoformat(timespec="seconds")
        return f"Partition {self.partition.index} waits for {self.awaited} since {since}"


def decodable(offset: int, reason: str) -> str:
    """Return what a partition waits for if its batch at `offset` cannot be decoded."""
    return f"a batch at offset {offset} that can be decoded ({reason})"


def _now() -> datetime:
    return datetime.now(UTC)


class Holds:
    """All current delays of messages that cannot be decoded yet.

    They have no schema yet, or the log has a batch that is corrupt.

    A partition has at most one delay of its newest messages, and one for each catch-up read.
    """

    def __init__(self, clock: Callable[[], datetime] = _now) -> None:
        self._clock = clock
        self._held: dict[Partition, dict[int, Hold]] = {}

    def begin(self, partition: Partition, offset: int, awaited: str) -> None:
        """Note that the messages at `offset` wait for `awaited`.

        If this delay is already noted, its start time stays.
        """
        held = self._held.setdefault(partition, {})
        before = held.get(offset)
        held[offset] = Hold(partition, awaited, before.since if before else self._clock())

    def end(self, partition: Partition, offset: int) -> None:
        """End the delay of the messages at `offset`."""
        held = self._held.get(partition, {})
        if offset in held:
            del held[offset]
        if not held:
            self._held.pop(partition, None)

    def forget(self, partition: Partition) -> None:
        """End all delays of the partition, because this worker does not read it any more."""
        self._held.pop(partition, None)

    def at(self, partition: Partition, offset: int) -> Hold | None:
        """Return the delay of the messages at `offset`; None if it is shorter than SHOWN_AFTER."""
        held = self._held.get(partition)
        hold = held.get(offset) if held else None
        if hold is None or self._clock() - hold.since < SHOWN_AFTER:
            return None
        return hold
