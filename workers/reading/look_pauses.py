"""How long to wait before an unreadable chunk is read again."""

from datetime import timedelta
from typing import Final

from app.domain.message import Partition

LOOK_AGAIN: Final = timedelta(milliseconds=200)
# The longest pause. It is long because each attempt reads a whole chunk.
LOOK_AGAIN_MAX: Final = timedelta(seconds=5)


class LookPauses:
    """The pause of each partition before its unreadable chunk is read again.

    The pause grows with each failed attempt.
    """

    def __init__(self, first: timedelta = LOOK_AGAIN) -> None:
        self._first = first
        self._last: dict[Partition, timedelta] = {}

    def __contains__(self, partition: Partition) -> bool:
        """Whether the last attempt on the partition failed."""
        return partition in self._last

    def next(self, partition: Partition) -> timedelta:
        """Return the pause after one more failed attempt."""
        last = self._last.get(partition)
        self._last[partition] = self._first if last is None else longer(last)
        return self._last[partition]

    def end(self, partition: Partition) -> None:
        """Forget the partition. Its chunk was readable, or nobody reads it any more."""
        self._last.pop(partition, None)


def longer(pause: timedelta) -> timedelta:
    """Return the pause that follows `pause`; a pause above LOOK_AGAIN_MAX stays as it is."""
    return max(pause, min(2 * pause, LOOK_AGAIN_MAX))
