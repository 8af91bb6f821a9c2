"""Keeps subscriptions that catch up, or filter, from taking the whole loop."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from workers.consumer.cpu_contention import CpuContention

# A backlog is delivered as fast as the CPU allows, but a turn of the loop in which that happens is
# to take about so much CPU time, whatever else is in it: a live delivery waits for a few turns.
# Time in which other processes have the core does not count: a backlog is no reason for it.
TURN_SECONDS: Final = 0.001
# So many requests are begun in a turn at first, at least, and at most.
STARTS_PER_TURN: Final = 16
STARTS_MIN: Final = 4
STARTS_MAX: Final = 64
# After a live delivery there will soon be another.
LIVE_SECONDS: Final = 1.0
# Where processes wait for cores, each turn of a backlog is followed by a rest of so many times its
# CPU time. Live messages pass through all of them: a loop that is always ready to run is the last
# that they wait for, and a backlog has time.
RESTS_PER_TURN: Final = 3.0
REST_SECONDS_MAX: Final = 0.010
# Filters run for so long in one turn, however many messages that are: some cost a thousand times
# as much as others.
FILTERS_PER_TURN: Final = 4096
FILTER_SECONDS_PER_TURN: Final = 0.001


def starts_after(starts: int, *, cpu_s: float, all_used: bool, live: bool) -> int:
    """How many the next turn may begin, after one that might begin `starts` and used `cpu_s`.

    A long turn makes them fewer, whatever made it long, if there are `live` deliveries to wait for
    it. Another makes them more, if all were used. Both by a quarter: a turn with few costs more for
    each.
    """
    if live and cpu_s > TURN_SECONDS:
        return max(STARTS_MIN, starts - starts // 4)
    return min(STARTS_MAX, starts + starts // 4) if all_used else starts


def rest_after(cpu_s: float, *, contended: bool, live: bool) -> float:
    """How long nothing of a backlog is begun after a turn that used `cpu_s`; seconds."""
    return min(REST_SECONDS_MAX, RESTS_PER_TURN * cpu_s) if contended and live else 0.0


class LoopBudget:
    """A budget of deliveries per turn of the loop; the rest wait for the next one.

    With `seconds` nothing more is begun in a turn after that time, either. If it `adapts`, the
    budget follows the CPU time that turns use, by `starts_after`, and turns are apart by
    `rest_after`.
    `clock` and `cpu_clock` are seconds of the world, and of the CPU of this thread.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        starts: int = STARTS_PER_TURN,
        seconds: float | None = None,
        adapts: bool = False,
        clock: Callable[[], float] = time.perf_counter,
        cpu_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._loop = loop
        self._starts = starts
        self._seconds = seconds
        self._adapts = adapts
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._contention = CpuContention()
        self._left = starts
        self._begun = 0.0
        self._cpu_begun = 0.0
        self._live = False
        self._live_until = 0.0
        self._armed = False
        self._waiting: OrderedDict[Callable[[], None], None] = OrderedDict()

    def take(self, resume: Callable[[], None]) -> bool:
        """Whether one may begin now; if not, `resume` is called in a later turn."""
        if not self._armed:
            self._armed = True
            self._begin()
            self._loop.call_soon(self._next_turn)
        if self._has_room():
            self._left -= 1
            return True
        self._waiting[resume] = None
        return False

    def is_waiting(self, resume: Callable[[], None]) -> bool:
        """Whether `resume` is to be called in a later turn; in this one nothing may begin."""
        return resume in self._waiting

    def live(self) -> None:
        """A delivery begins that is no part of a backlog."""
        self._live = True

    def _begin(self) -> None:
        self._left = self._starts
        self._begun = self._clock()
        if self._adapts:
            self._cpu_begun = self._cpu_clock()

    def _has_room(self) -> bool:
        if self._left <= 0:
            return False
        return self._seconds is None or self._clock() < self._begun + self._seconds

    def _next_turn(self) -> None:
        rest = self._adapted(self._clock()) if self._adapts else 0.0
        if rest:
            # Still armed, and nothing left: a start that is requested meanwhile waits for the end
            # of it.
            self._left = 0
            self._loop.call_later(rest, self._start_turn)
        else:
            self._start_turn()

    def _start_turn(self) -> None:
        self._begin()
        self._armed = False
        for _ in range(len(self._waiting)):
            if not self._has_room():
                break
            resume, _ = self._waiting.popitem(last=False)
            resume()
        if self._waiting and not self._armed:
            self._armed = True
            self._loop.call_soon(self._next_turn)

    def _adapted(self, now: float) -> float:
        """Set the budget by the turn that is over; the seconds to rest before the next one."""
        if self._live:
            self._live = False
            self._live_until = now + LIVE_SECONDS
        live, cpu_s = now < self._live_until, self._cpu_clock() - self._cpu_begun
        self._contention.ran(took_s=now - self._begun, cpu_s=cpu_s)
        self._starts = starts_after(self._starts, cpu_s=cpu_s, all_used=self._left <= 0, live=live)
        return rest_after(cpu_s, contended=self._contention.is_high(), live=live)
