"""Finds out whether the log accepts messages, from the results of the last messages."""

from collections.abc import Callable
from time import perf_counter
from typing import Final

# How long a failure of the log counts. After this time, the log is assumed to accept messages
# again, so that publishers try again.
COUNTS_FOR_S: Final = 10.0
# If a message was stored less than this time before a failure, the log is assumed to accept
# messages. The failure may then affect only one partition that has no leader.
STORED_BEFORE_S: Final = 2.0

_NEVER: Final = float("-inf")


class Writability:
    """The results of the last messages that this process appended to the log.

    A log can respond, but be unable to store messages, because its disk is full or replicas are
    missing. Only the messages of publishers show this, because no test messages are written.
    """

    __slots__ = ("_clock", "_failed_at", "_reason", "stored_at")

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._failed_at = _NEVER
        self._reason = ""
        # The time by `clock` when the last stored message was passed to the log. The publisher sets
        # this time for each stored message.
        self.stored_at = _NEVER

    def failed(self, reason: str) -> None:
        """Remember that a message was not stored because of the log, and why."""
        self._failed_at = self._clock()
        self._reason = reason

    @property
    def problem(self) -> str:
        """Return why the log does not accept messages; empty if it accepts them.

        The result is empty if a message was stored shortly before the last failure or later, or if
        the last failure is long ago.
        """
        failed_at = self._failed_at
        stored_lately = self.stored_at > failed_at - STORED_BEFORE_S
        forgotten = self._clock() - failed_at > COUNTS_FOR_S
        return "" if stored_lately or forgotten else self._reason
