"""Keeps subscriptions that catch up, or filter many messages, from blocking the event loop."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from workers.consumer.cpu_contention import CpuContention

# Target for the CPU time of one turn of the loop that delivers from a backlog. A backlog is
# delivered as fast as the CPU allows, but live deliveries must wait for only a few short turns.
# Time in which other processes have the core does not count: it is no reason to slow the backlog
# down.
TURN_SECONDS: Final = 0.001
# The number of requests started in one turn: at first, at least, and at most.
STARTS_PER_TURN: Final = 16
STARTS_MIN: Final = 4
STARTS_MAX: Final = 64
# For this long after a live delivery, another one is expected soon.
LIVE_SECONDS: Final = 1.0
# If processes compete for cores, each turn with backlog is followed by a rest of this many times
# its CPU time. The operating system prefers processes that rest: a loop that never rests is
# scheduled last, and its live messages would wait. A backlog can wait.
RESTS_PER_TURN: Final = 3.0
REST_SECONDS_MAX: Final = 0.010
# In one turn at most this long is spent on filters, for any number of messages: some filters cost a
# thousand times as much as others.
FILTERS_PER_TURN: Final = 4096
FILTER_SECONDS_PER_TURN: Final = 0.001


def starts_after(starts: int, *, cpu_s: float, all_used: bool, live: bool) -> int:
    """Return how many requests the next turn may start.

    If live deliveries wait and the turn was long for any reason, the number decreases. Else it
    increases if all starts were used. Both steps are a quarter, because turns with few starts cost
    more for each start.

    Args:
        starts: How many the last turn might start.
        cpu_s: The CPU time of the last turn.
        all_used: Whether it started that many.
        live: Whether there are live deliveries.
    """
    if live and cpu_s > TURN_SECONDS:
        return max(STARTS_MIN, starts - starts // 4)
    return min(STARTS_MAX, starts + starts // 4) if all_used else starts


def rest_after(cpu_s: float, *, contended: bool, live: bool) -> float:
    """Seconds to start nothing from a backlog after a turn that used `cpu_s` of CPU time."""
    return min(REST_SECONDS_MAX, RESTS_PER_TURN * cpu_s) if contended and live else 0.0


class LoopBudget:
    """Limits the deliveries started in one turn of the loop; the rest wait for the next turn.

    With `seconds`, nothing more is started in a turn after that time. If it `adapts`, the limit
    follows the CPU time of the turns (`starts_after`), and there is a rest between turns
    (`rest_after`). `clock` measures wall time and `cpu_clock` the CPU time of this thread, in
    seconds.
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
        """Return whether one delivery may start now; if not, call `resume` in a later turn."""
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
        """Whether `resume` will be called in a later turn, and nothing may start in this one."""
        return resume in self._waiting

    def live(self) -> None:
        """Note the start of a delivery that is not from a backlog."""
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
            # The timer is still set and no starts are left: new requests for a start wait for the
            # timer.
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
        """Set the limit after a turn; return the seconds to rest before the next one."""
        if self._live:
            self._live = False
            self._live_until = now + LIVE_SECONDS
        live, cpu_s = now < self._live_until, self._cpu_clock() - self._cpu_begun
        self._contention.ran(took_s=now - self._begun, cpu_s=cpu_s)
        self._starts = starts_after(self._starts, cpu_s=cpu_s, all_used=self._left <= 0, live=live)
        return rest_after(cpu_s, contended=self._contention.is_high(), live=live)
