"""Keeps subscriptions that catch up, or filter, from taking the whole loop."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final

# A backlog is delivered as fast as the CPU allows, but so many requests are begun in one turn of
# the loop, so that
# live deliveries of other subscriptions wait for at most these.
STARTS_PER_TURN: Final = 32
# Filters run for so long in one turn, however many messages that are: some cost a thousand times
# as much as others.
FILTERS_PER_TURN: Final = 4096
FILTER_SECONDS_PER_TURN: Final = 0.001


class Turns:
    """A budget of catch-up deliveries per turn of the loop; the rest wait for the next one.

    With `seconds` nothing more is begun in a turn after that time, either.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        starts: int = STARTS_PER_TURN,
        seconds: float | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._loop = loop
        self._starts = starts
        self._seconds = seconds
        self._clock = clock
        self._left = starts
        self._until = 0.0
        self._armed = False
        self._deferred: deque[Callable[[], None]] = deque()

    def take(self, resume: Callable[[], None]) -> bool:
        """Whether one may begin now; if not, `resume` is called in a later turn."""
        if not self._armed:
            self._armed = True
            self._begin()
            self._loop.call_soon(self._next_turn)
        if self._has_room():
            self._left -= 1
            return True
        if resume not in self._deferred:
            self._deferred.append(resume)
        return False

    def _begin(self) -> None:
        self._left = self._starts
        if self._seconds is not None:
            self._until = self._clock() + self._seconds

    def _has_room(self) -> bool:
        return self._left > 0 and (self._seconds is None or self._clock() < self._until)

    def _next_turn(self) -> None:
        self._begin()
        self._armed = False
        for _ in range(len(self._deferred)):
            if not self._has_room():
                break
            self._deferred.popleft()()
        if self._deferred and not self._armed:
            self._armed = True
            self._loop.call_soon(self._next_turn)
