"""One timer for all deadlines of a transport."""

import asyncio
from math import inf
from typing import Final, Protocol

# Two checks are at least this far apart: a deadline is enforced at most this late.
GRAIN_S: Final = 0.020


class HasDeadline(Protocol):
    """An object with a deadline on the loop's clock; infinite when it has none at the moment."""

    @property
    def deadline(self) -> float:
        """When to call `expire`, in seconds of `loop.time()`."""

    def expire(self) -> None:
        """Handle the passed deadline.

        Afterwards the deadline is another one, or this is discarded.
        """


class DeadlineTimer:
    """Expires objects after their deadlines, with one timer for all of them.

    A timer for each request would cost more than all other work of the loop for it. The one timer
    is set for the earliest known deadline. Usually that request is long finished when it fires, and
    the timer is set for the earliest deadline of the others. It runs only while there is one.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._timed: set[HasDeadline] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._at = inf
        self._drained: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._timed)

    def add(self, timed: HasDeadline) -> None:
        """Watch `timed` until it is discarded."""
        self._timed.add(timed)
        self.notice(timed.deadline)

    def discard(self, timed: HasDeadline) -> None:
        """Stop watching it. Nothing happens if it was not watched."""
        self._timed.discard(timed)
        if not self._timed:
            self._stop()

    def notice(self, deadline: float) -> None:
        """Remember that a watched object has this deadline now: fire by then."""
        if deadline < self._at:
            self._set(deadline)

    async def drained(self) -> None:
        """Wait until nothing is watched any more."""
        while self._timed:
            self._drained = self._drained or self._loop.create_future()
            await asyncio.shield(self._drained)

    def _set(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._at = at
        self._timer = self._loop.call_at(at, self._run)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._at = None, inf
        drained, self._drained = self._drained, None
        if drained is not None:
            drained.set_result(None)

    def _run(self) -> None:
        self._timer, self._at = None, inf
        now = self._loop.time()
        for timed in [timed for timed in self._timed if timed.deadline <= now]:
            # An object that expired before this one may have started the next request on it.
            if timed.deadline <= now:
                timed.expire()
        earliest = min((timed.deadline for timed in self._timed), default=inf)
        if earliest < inf:
            self.notice(max(earliest, now + GRAIN_S))
