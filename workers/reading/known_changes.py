"""How far back the changes of the control plane are known here."""

from collections.abc import Callable
from time import monotonic


class KnownChanges:
    """Says up to which moment all changes are in effect here; moments are those of its clock."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.now = clock
        self._until = float("-inf")

    def read(self, asked_at: float) -> None:
        """What had changed when the control plane was asked at that moment is in effect here."""
        self._until = asked_at

    def include(self, moment: float) -> bool:
        """Whether all that changed before that moment is in effect here."""
        return self._until >= moment
