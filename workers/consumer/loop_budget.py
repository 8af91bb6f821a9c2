"""Limits the work of subscriptions with a backlog, so that they do not block the event loop.

A delivery is live if its message has just arrived, and is not from a backlog.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from workers.consumer.cpu_contention import CpuContention

# The CPU time that a backlog should use in one turn of the event loop, in seconds. A backlog is
# delivered as fast as the CPU allows, but a live delivery should wait for only a few short turns.
# Time in which other processes use the core does not count.
TURN_SECONDS: Final = 0.001
# The maximum number of requests that start in the first turn of the event loop.
STARTS_PER_TURN: Final = 16
# The number of requests that may start in a later turn is adapted. These are its lowest and its
# highest value.
STARTS_MIN: Final = 4
STARTS_MAX: Final = 64
# For this many seconds after a live delivery, further live deliveries are expected.
LIVE_SECONDS: Final = 1.0
# If processes compete for cores, deliveries of a backlog pause after each turn. The pause is this
# many times the turn's CPU time. The operating system prefers processes that pause. Without a
# pause, this process would get the CPU last, and live messages would wait.
RESTS_PER_TURN: Final = 3.0
# The longest pause after a turn, in seconds.
REST_SECONDS_MAX: Final = 0.010
# The maximum number of messages that are filtered in one turn of the event loop.
FILTERS_PER_TURN: Final = 4096
# The longest time for filtering in one turn, in seconds. A time limit is needed, because some
# filters take a thousand times as long as others.
FILTER_SECONDS_PER_TURN: Final = 0.001


def starts_after(starts: int, *, cpu_s: float, all_used: bool, live: bool) -> int:
    """Return how many requests the next turn of the event loop may start.

    If live deliveries are expected and the last turn used too much CPU time, the number falls by a
    quarter. Otherwise it rises by a quarter, if the last turn started as many requests as it was
    allowed to.

    Args:
        starts: How many requests the last turn was allowed to start.
        cpu_s: The CPU time of the last turn, in seconds.
        all_used: Whether the last turn started as many requests as it was allowed to.
        live: Whether live deliveries are expected.
    """
    if live and cpu_s > TURN_SECONDS:
        return max(STARTS_MIN, starts - starts // 4)
    return min(STARTS_MAX, starts + starts // 4) if all_used else starts


def rest_after(cpu_s: float, *, contended: bool, live: bool) -> float:
    """Return for how many seconds deliveries of a backlog pause after a turn of the event loop.

    Args:
        cpu_s: The CPU time of the turn, in seconds.
        contended: Whether other threads compete for this core.
        live: Whether live deliveries are expected.
    """
    return min(REST_SECONDS_MAX, RESTS_PER_TURN * cpu_s) if contended and live else 0.0


class LoopBudget:
    """Limits the deliveries that start in one turn of the event loop.

    Further deliveries wait for the next turn.

    Args:
        loop: The event loop.
        starts: How many deliveries the first turn may start.
        seconds: The time after which a turn starts no more deliveries. None for no time limit.
        adapts: Whether the number of starts (`starts_after`) and the pauses (`rest_after`) depend
            on the CPU time of the turns.
        clock: Measures wall time in seconds.
        cpu_clock: Measures the CPU time of this thread in seconds.
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
        """Return whether one delivery may start now. If not, call `resume` in a later turn."""
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
        """Whether `resume` will be called in a later turn.

        Until this call, the caller that passed `resume` may start nothing more.
        """
        return resume in self._waiting

    def live(self) -> None:
        """Called at the start of a live delivery."""
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
            # Allow no start before the timer ends the pause.
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
        """Set the limit after a turn. Return how many seconds to pause before the next turn."""
        if self._live:
            self._live = False
            self._live_until = now + LIVE_SECONDS
        live, cpu_s = now < self._live_until, self._cpu_clock() - self._cpu_begun
        self._contention.ran(took_s=now - self._begun, cpu_s=cpu_s)
        self._starts = starts_after(self._starts, cpu_s=cpu_s, all_used=self._left <= 0, live=live)
        return rest_after(cpu_s, contended=self._contention.is_high(), live=live)
