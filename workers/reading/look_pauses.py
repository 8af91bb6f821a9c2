"""How long a partition rests before what cannot be read yet is looked at again."""

from datetime import timedelta
from typing import Final

from app.domain.message import Partition

LOOK_AGAIN: Final = timedelta(milliseconds=200)
# A look fetches a whole chunk.
LOOK_AGAIN_MAX: Final = timedelta(seconds=5)


class LookPauses:
    """Pauses that grow with each look in vain."""

    def __init__(self, first: timedelta = LOOK_AGAIN) -> None:
        self._first = first
        self._last: dict[Partition, timedelta] = {}

    def __contains__(self, partition: Partition) -> bool:
        """Whether the last look at the partition was in vain."""
        return partition in self._last

    def next(self, partition: Partition) -> timedelta:
        """The pause after one more look in vain."""
        last = self._last.get(partition)
        self._last[partition] = self._first if last is None else longer(last)
        return self._last[partition]

    def end(self, partition: Partition) -> None:
        """The partition goes on, or is read no more."""
        self._last.pop(partition, None)


def longer(pause: timedelta) -> timedelta:
    """The pause that follows that one; one above LOOK_AGAIN_MAX stays as it is."""
    return max(pause, min(2 * pause, LOOK_AGAIN_MAX))
