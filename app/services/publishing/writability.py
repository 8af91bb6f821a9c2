"""Whether the log takes what is published, by what became of the last messages."""

from collections.abc import Callable
from time import perf_counter
from typing import Final

# A failure counts for so long: then somebody has to try again.
COUNTS_FOR_S: Final = 10.0
# What was stored so shortly before a failure shows that the log as a whole does take messages:
# one partition may have no leader while all others have one.
STORED_BEFORE_S: Final = 2.0

_NEVER: Final = float("-inf")


class Writability:
    """What became of the last messages that this process gave to the log.

    A log can answer and take nothing: its disk is full, or it has too few replicas. Nothing is
    written to find out.
    """

    __slots__ = ("_clock", "_failed_at", "_reason", "stored_at")

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._failed_at = _NEVER
        self._reason = ""
        # When the last message that was stored came, by the clock; set for each.
        self.stored_at = _NEVER

    def failed(self, reason: str) -> None:
        """A message was not stored, for a reason of the log's."""
        self._failed_at = self._clock()
        self._reason = reason

    @property
    def problem(self) -> str:
        """Why a message was not stored; empty once one is stored, or much time has passed."""
        failed_at = self._failed_at
        stored_lately = self.stored_at > failed_at - STORED_BEFORE_S
        forgotten = self._clock() - failed_at > COUNTS_FOR_S
        return "" if stored_lately or forgotten else self._reason
