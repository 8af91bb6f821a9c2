"""Keeps subscriptions that catch up, or filter, from taking the whole loop."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

# A backlog is delivered as fast as the CPU allows, but a turn of the loop in which that happens is
# to take about so long, whatever else is in it: a live delivery waits for a few turns.
TURN_SECONDS: Final = 0.001
# So many requests are begun in a turn at first, at least, and at most.
STARTS_PER_TURN: Final = 16
STARTS_MIN: Final = 4
STARTS_MAX: Final = 64
# Who had a live delivery will soon have another.
LIVE_SECONDS: Final = 1.0
# Filters run for so long in one turn, however many messages that are: some cost a thousand times
# as much as others.
FILTERS_PER_TURN: Final = 4096
FILTER_SECONDS_PER_TURN: Final = 0.001


def starts_after(starts: int, *, took_s: float, all_used: bool, live: bool) -> int:
    """How many the next turn may begin, after one that might begin `starts` and took so long.

    A long turn makes them fewer, whoever made it long, if there are `live` deliveries to wait for
    it. Another makes them more, if all were used. Both by a quarter: a busy machine makes some
    turns long, and a turn with few costs more for each.
    """
    if live and took_s > TURN_SECONDS:
        return max(STARTS_MIN, starts - starts // 4)
    return min(STARTS_MAX, starts + starts // 4) if all_used else starts


class Turns:
    """A budget of deliveries per turn of the loop; the rest wait for the next one.

    With `seconds` nothing more is begun in a turn after that time, either. If it `adapts`, the
    budget follows how long turns take, by `starts_after`.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        starts: int = STARTS_PER_TURN,
        seconds: float | None = None,
        adapts: bool = False,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._loop = loop
        self._starts = starts
        self._seconds = seconds
        self._adapts = adapts
        self._clock = clock
        self._left = starts
        self._begun = 0.0
        self._live = False
        self._live_until = 0.0
        self._armed = False
        self._deferred: OrderedDict[Callable[[], None], None] = OrderedDict()

    def take(self, resume: Callable[[], None]) -> bool:
        """Whether one may begin now; if not, `resume` is called in a later turn."""
        if not self._armed:
            self._armed = True
            self._begin()
            self._loop.call_soon(self._next_turn)
        if self._has_room():
            self._left -= 1
            return True
        self._deferred[resume] = None
        return False

    def defers(self, resume: Callable[[], None]) -> bool:
        """Whether `resume` is to be called in a later turn; in this one nothing may begin."""
        return resume in self._deferred

    def live(self) -> None:
        """A delivery begins that is no part of a backlog."""
        self._live = True

    def _begin(self) -> None:
        self._left = self._starts
        self._begun = self._clock()

    def _has_room(self) -> bool:
        if self._left <= 0:
            return False
        return self._seconds is None or self._clock() < self._begun + self._seconds

    def _next_turn(self) -> None:
        if self._adapts:
            self._adapt(self._clock())
        self._begin()
        self._armed = False
        for _ in range(len(self._deferred)):
            if not self._has_room():
                break
            resume, _ = self._deferred.popitem(last=False)
            resume()
        if self._deferred and not self._armed:
            self._armed = True
            self._loop.call_soon(self._next_turn)

    def _adapt(self, now: float) -> None:
        if self._live:
            self._live = False
            self._live_until = now + LIVE_SECONDS
        self._starts = starts_after(
            self._starts,
            took_s=now - self._begun,
            all_used=self._left <= 0,
            live=now < self._live_until,
        )
