"""How a backlog lets others run, where cores are waited for."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.consumer.test_timed_loop_budget import Clock
from workers.consumer.loop_budget import (
    LIVE_SECONDS,
    REST_SECONDS_MAX,
    STARTS_MAX,
    STARTS_PER_TURN,
    TURN_SECONDS,
    LoopBudget,
    rest_after,
)

CPU_S = 0.002
# As much as another process has the core meanwhile.
LOST_S = 0.004


@pytest.mark.parametrize(
    ("cpu_s", "contended", "live", "rest_s"),
    [
        (0.001, True, True, 0.003),
        (0.050, True, True, REST_SECONDS_MAX),
        (0.001, False, True, 0.0),
        (0.001, True, False, 0.0),
    ],
)
def test_a_turn_is_rested_from_thrice_its_cpu_time_if_cores_are_waited_for_and_others_are_live(
    cpu_s: float,
    contended: bool,  # noqa: FBT001 - columns of the table
    live: bool,  # noqa: FBT001 - another
    rest_s: float,
) -> None:
    assert rest_after(cpu_s, contended=contended, live=live) == rest_s


class SteppedLoop:
    """Of a loop, what turns use of it; each step runs what is due next."""

    def __init__(self, clock: Clock, cpu_clock: Clock) -> None:
        self._clock, self._cpu_clock = clock, cpu_clock
        self._soon: list[Callable[[], None]] = []
        self._later: list[Callable[[], None]] = []
        self.rests: list[float] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._soon.append(callback)

    def call_later(self, delay: float, callback: Callable[[], None]) -> None:
        self.rests.append(delay)
        self._later.append(callback)

    def turn(self, *, cpu_s: float, lost_s: float = 0.0) -> None:
        """The turn uses so much CPU time, and loses the core meanwhile; then comes the next one."""
        self._clock.now += cpu_s + lost_s
        self._cpu_clock.now += cpu_s
        due, self._soon = self._soon, []
        for callback in due:
            callback()

    def rest(self) -> None:
        """It is over."""
        self._clock.now += self.rests[-1]
        due, self._later = self._later, []
        for callback in due:
            callback()


class Backlog:
    """Begins all that it may, and remembers how many that were each time it was let."""

    def __init__(self) -> None:
        self.clock, cpu_clock = Clock(), Clock()
        self.loop = SteppedLoop(self.clock, cpu_clock)
        loop: Any = self.loop
        self.budget = LoopBudget(loop, adapts=True, clock=self.clock, cpu_clock=cpu_clock)
        self.begun: list[int] = []

    def pump(self) -> None:
        number = 0
        while self.budget.take(self.pump):
            number += 1
        self.begun.append(number)


def test_nothing_of_a_backlog_is_begun_until_the_rest_is_over() -> None:
    backlog = Backlog()
    backlog.pump()
    backlog.budget.live()
    backlog.loop.turn(cpu_s=CPU_S, lost_s=LOST_S)
    assert backlog.loop.rests == pytest.approx([3 * CPU_S])
    backlog.pump()
    assert backlog.begun == [STARTS_PER_TURN, 0]
    backlog.loop.rest()
    assert backlog.begun[2:] == [STARTS_PER_TURN - STARTS_PER_TURN // 4]


def test_each_turn_is_rested_from_as_long_as_others_are_live() -> None:
    backlog = Backlog()
    backlog.pump()
    for _ in range(5):
        backlog.budget.live()
        backlog.loop.turn(cpu_s=CPU_S, lost_s=LOST_S)
        backlog.loop.rest()
    assert backlog.loop.rests == pytest.approx([3 * CPU_S] * 5)
    backlog.clock.now += LIVE_SECONDS
    backlog.loop.turn(cpu_s=CPU_S)
    backlog.loop.turn(cpu_s=CPU_S)
    assert len(backlog.loop.rests) == 5
    assert all(backlog.begun[1:])


def test_who_has_begun_all_it_had_rests_too_before_it_begins_more() -> None:
    backlog = Backlog()
    assert backlog.budget.take(backlog.pump)
    backlog.budget.live()
    backlog.loop.turn(cpu_s=CPU_S, lost_s=LOST_S)
    assert not backlog.budget.take(backlog.pump)
    backlog.loop.rest()
    assert backlog.begun == [STARTS_PER_TURN - STARTS_PER_TURN // 4]


def test_a_backlog_uses_a_free_core_whole() -> None:
    backlog = Backlog()
    backlog.pump()
    for _ in range(5):
        backlog.budget.live()
        backlog.loop.turn(cpu_s=CPU_S)
    assert not backlog.loop.rests
    assert all(backlog.begun)


def test_time_in_which_other_processes_have_the_core_costs_a_backlog_nothing() -> None:
    backlog = Backlog()
    backlog.pump()
    for _ in range(20):
        backlog.budget.live()
        backlog.loop.turn(cpu_s=TURN_SECONDS / 2, lost_s=20 * TURN_SECONDS)
        backlog.loop.rest()
    assert backlog.loop.rests == pytest.approx([3 * TURN_SECONDS / 2] * 20)
    assert backlog.begun[-1] == STARTS_MAX
