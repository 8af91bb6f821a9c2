"""One timer for all deadlines of a transport."""

import asyncio
from math import inf
from typing import Final, Protocol

# The shortest time in seconds between two checks. So a deadline may be enforced late by this time.
GRAIN_S: Final = 0.020


class HasDeadline(Protocol):
    """An object with a deadline on the event loop's clock.

    The deadline is infinite if there is none.
    """

    @property
    def deadline(self) -> float:
        """The time at which `expire` is called, in seconds of `loop.time()`."""

    def expire(self) -> None:
        """Called when the deadline has passed.

        After this call the object has another deadline, or is no longer watched.
        """


class DeadlineTimer:
    """Expires objects after their deadlines, with one timer for all of them.

    A timer for each request would take more time than all other work for the request. The one timer
    is set for the earliest known deadline. When the timer fires, the request with this deadline has
    usually ended long ago. Then the timer is set for the earliest deadline of all watched objects.
    If no object has a deadline, no timer runs.
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
        """Stop watching `timed`. Nothing happens if it was not watched."""
        self._timed.discard(timed)
        if not self._timed:
            self._stop()

    def notice(self, deadline: float) -> None:
        """Called when a watched object gets a new deadline, so that the timer fires by then."""
        if deadline < self._at:
            self._set(deadline)

    async def drained(self) -> None:
        """Wait until no object is watched any more."""
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
        try:
            for timed in [timed for timed in self._timed if timed.deadline <= now]:
                # Check each deadline again. When one object expires, another object in this list
                # may get a new request, and with it a later deadline.
                if timed.deadline <= now:
                    timed.expire()
        finally:
            # Set the timer also after an error, because other requests need it.
            earliest = min((timed.deadline for timed in self._timed), default=inf)
            if earliest < inf:
                self.notice(max(earliest, now + GRAIN_S))
