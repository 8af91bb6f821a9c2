"""Limits the work of subscriptions with a backlog, so that they do not block the event loop.

A delivery is live if its message has just arrived, and is not from a backlog.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from workers.consumer.cpu_contention import CpuContention

# The CPU time that one turn of the event loop should use for a backlog. A backlog is delivered as
# fast as the CPU allows, but live deliveries should wait for only a few short turns. Time in which
# other processes use the core does not count.
TURN_SECONDS: Final = 0.001
# The number of requests that the first turn of the event loop may start.
STARTS_PER_TURN: Final = 16
# The lowest and the highest limit of the requests that each later turn may start.
STARTS_MIN: Final = 4
STARTS_MAX: Final = 64
# After a live delivery, further ones are expected for this many seconds.
LIVE_SECONDS: Final = 1.0
# If processes compete for cores, each turn with a backlog is followed by a rest of this many times
# its CPU time. The operating system prefers processes that rest. Without a rest, this process would
# be scheduled last, and live messages would wait.
RESTS_PER_TURN: Final = 3.0
# The longest rest after a turn.
REST_SECONDS_MAX: Final = 0.010
# The maximum number of messages that are filtered in one turn.
FILTERS_PER_TURN: Final = 4096
# The longest time for filters in one turn. Some filters take a thousand times as long as others.
FILTER_SECONDS_PER_TURN: Final = 0.001


def starts_after(starts: int, *, cpu_s: float, all_used: bool, live: bool) -> int:
    """Return how many requests the next turn may start.

    If live deliveries are expected and the turn used too much CPU time, the number becomes smaller
    by a quarter. Otherwise it becomes larger by a quarter, if the last turn started as many
    requests as it might.

    Args:
        starts: How many requests the last turn might start.
        cpu_s: The CPU time of the last turn.
        all_used: Whether the last turn started as many requests as it might.
        live: Whether live deliveries are expected.
    """
    if live and cpu_s > TURN_SECONDS:
        return max(STARTS_MIN, starts - starts // 4)
    return min(STARTS_MAX, starts + starts // 4) if all_used else starts


def rest_after(cpu_s: float, *, contended: bool, live: bool) -> float:
    """Return how many seconds deliveries of a backlog pause after a turn of the event loop.

    Args:
        cpu_s: The CPU time of the turn.
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
        seconds: The time after which a turn starts nothing more; None for no such limit.
        adapts: Whether the limit follows the CPU time of the turns (`starts_after`), and pauses
            follow them (`rest_after`).
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

        Until then, the caller that passed `resume` may start nothing more.
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
            # Allow no start before the timer ends the rest.
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
        """Set the limit after a turn. Return how many seconds to rest before the next turn."""
        if self._live:
            self._live = False
            self._live_until = now + LIVE_SECONDS
        live, cpu_s = now < self._live_until, self._cpu_clock() - self._cpu_begun
        self._contention.ran(took_s=now - self._begun, cpu_s=cpu_s)
        self._starts = starts_after(self._starts, cpu_s=cpu_s, all_used=self._left <= 0, live=live)
        return rest_after(cpu_s, contended=self._contention.is_high(), live=live)
