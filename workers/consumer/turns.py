"""Keeps subscriptions that catch up from taking the whole loop."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

# A backlog is delivered as fast as the CPU allows, but so many requests are begun in one turn of
# the loop, so that
# live deliveries of other subscriptions wait for at most these.
STARTS_PER_TURN: Final = 32


class Turns:
    """A budget of catch-up deliveries per turn of the loop; the rest wait for the next one."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._left = STARTS_PER_TURN
        self._armed = False
        self._deferred: deque[Callable[[], None]] = deque()

    def take(self, resume: Callable[[], None]) -> bool:
        """Whether one may begin now; if not, `resume` is called in a later turn."""
        if not self._armed:
            self._armed = True
            self._loop.call_soon(self._next_turn)
        if self._left > 0:
            self._left -= 1
            return True
        if resume not in self._deferred:
            self._deferred.append(resume)
        return False

    def _next_turn(self) -> None:
        self._left = STARTS_PER_TURN
        self._armed = False
        for _ in range(len(self._deferred)):
            if self._left == 0:
                break
            self._deferred.popleft()()
        if self._deferred and not self._armed:
            self._armed = True
            self._loop.call_soon(self._next_turn)
