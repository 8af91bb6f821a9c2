"""Up to which time the changes of the control plane are known to this worker."""

from collections.abc import Callable
from time import monotonic


class KnownChanges:
    """Knows up to which time all changes are in effect, on the worker's own clock."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.now = clock
        self._until = float("-inf")

    def read(self, asked_at: float) -> None:
        """Note that all changes read by a query that started at `asked_at` are in effect."""
        self._until = asked_at

    def include(self, moment: float) -> bool:
        """Whether all changes from before that moment are in effect."""
        return self._until >= moment
