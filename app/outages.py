"""Log lines about failures that last, such as those of a database that is down."""

from collections.abc import Callable
from time import monotonic
from typing import Any

from app.telemetry import REPEATED_AFTER


class Outage:
    """Logs a failure that lasts: at once, then once a minute, and when it has ended.

    A later line says in `repeated` how many failures were not logged since the last one.
    """

    __slots__ = ("_clock", "_event", "_failures", "_log", "_next_at", "_unlogged")

    def __init__(self, log: Any, event: str, *, clock: Callable[[], float] = monotonic) -> None:  # noqa: ANN401 - structlog's loggers have no type
        self._log = log
        self._event = event
        self._clock = clock
        self._failures = self._unlogged = 0
        self._next_at = 0.0

    def failed(self, **fields: object) -> None:
        """Log a failure with these fields, unless one was logged within the last minute."""
        now = self._clock()
        self._failures += 1
        if self._failures > 1 and now < self._next_at:
            self._unlogged += 1
            return
        repeated = {"repeated": self._unlogged} if self._unlogged else {}
        self._log.warning(self._event, **fields, **repeated)
        self._unlogged = 0
        self._next_at = now + REPEATED_AFTER.total_seconds()

    def ended(self, **fields: object) -> None:
        """Call this after each success. The first one after a failure is logged."""
        if self._failures:
            self._log.info("works_again", after=self._event, failures=self._failures, **fields)
            self._failures = self._unlogged = 0
