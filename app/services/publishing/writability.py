"""Judges from the results of the last messages whether the log accepts messages."""

from collections.abc import Callable
from time import perf_counter
from typing import Final

# How long a failure counts. After this time, a publisher has to try again.
COUNTS_FOR_S: Final = 10.0
# If a message was stored within this time before a failure, the log accepts messages. Perhaps only
# a single partition lacks a leader.
STORED_BEFORE_S: Final = 2.0

_NEVER: Final = float("-inf")


class Writability:
    """The results of the last messages that this process gave to the log.

    A log can respond and still store nothing, because its disk is full or replicas are missing.
    Only real messages show this; no test record is written.
    """

    __slots__ = ("_clock", "_failed_at", "_reason", "stored_at")

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._failed_at = _NEVER
        self._reason = ""
        # When the last message was stored, by `clock`. This is set for each message.
        self.stored_at = _NEVER

    def failed(self, reason: str) -> None:
        """Remember that a message was not stored because of the log, and why."""
        self._failed_at = self._clock()
        self._reason = reason

    @property
    def problem(self) -> str:
        """Return why the last message was not stored.

        The result is empty after a message was stored, and some time after the failure.
        """
        failed_at = self._failed_at
        stored_lately = self.stored_at > failed_at - STORED_BEFORE_S
        forgotten = self._clock() - failed_at > COUNTS_FOR_S
        return "" if stored_lately or forgotten else self._reason
