"""The time up to which this worker knows all changes of topics and subscriptions."""

from collections.abc import Callable
from time import monotonic


class KnownChanges:
    """The time up to which all changes are in effect in this worker, in monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.now = clock
        self._until = float("-inf")

    def read(self, queried_at: float) -> None:
        """Store that all changes from before `queried_at` are in effect.

        `queried_at` is the time at which the query for the changes began.
        """
        self._until = queried_at

    def include(self, moment: float) -> bool:
        """Whether all changes from before the time `moment` are in effect."""
        return self._until >= moment
