"""How many catch-up deliveries a turn of the loop may begin, by the CPU time of turns."""

import asyncio

import pytest

from tests.unit.consumer.test_timed_loop_budget import Clock
from workers.consumer.loop_budget import (
    LIVE_SECONDS,
    STARTS_MAX,
    STARTS_MIN,
    STARTS_PER_TURN,
    TURN_SECONDS,
    LoopBudget,
    starts_after,
)

LONG, SHORT = TURN_SECONDS * 1.1, TURN_SECONDS * 0.9


@pytest.mark.parametrize(
    ("starts", "cpu_s", "all_used", "next_starts"),
    [
        (20, LONG, True, 15),
        (20, LONG, False, 15),
        (20, SHORT, True, 25),
        (20, SHORT, False, 20),
        (STARTS_MIN, LONG, True, STARTS_MIN),
        (STARTS_MIN, SHORT, True, STARTS_MIN + STARTS_MIN // 4),
        (STARTS_MAX, SHORT, True, STARTS_MAX),
    ],
)
def test_the_budget_falls_after_a_long_turn_and_grows_after_a_short_one_that_used_it(
    starts: int,
    cpu_s: float,
    all_used: bool,  # noqa: FBT001 - a column of the table
    next_starts: int,
) -> None:
    assert starts_after(starts, cpu_s=cpu_s, all_used=all_used, live=True) == next_starts


def test_long_turns_do_not_matter_to_nobody() -> None:
    assert starts_after(20, cpu_s=LONG, all_used=True, live=False) == 25


@pytest.mark.parametrize("each_us", [5, 20, 60, 200])
def test_turns_settle_at_the_time_they_may_take(each_us: int) -> None:
    starts, took = STARTS_PER_TURN, list[float]()
    for _ in range(500):
        took.append(starts * each_us / 1e6)
        starts = starts_after(starts, cpu_s=took[-1], all_used=True, live=True)
    assert max(took[100:]) <= 1.25 * TURN_SECONDS + each_us / 1e6
    # The idle CPU is used: no turn is much shorter, unless they are as full as they may be.
    assert min(took[100:]) >= min(0.7 * TURN_SECONDS - each_us / 1e6, STARTS_MAX * each_us / 1e6)


async def test_less_is_begun_in_a_turn_while_turns_are_long_and_others_are_live() -> None:
    clock, begun = Clock(), list[int]()
    budget = LoopBudget(asyncio.get_running_loop(), adapts=True, clock=clock, cpu_clock=clock)

    async def until(count: int, *, took_s: float, live: bool) -> None:
        while len(begun) < count:
            if live:
                budget.live()
            clock.now += took_s
            await asyncio.sleep(0)

    def pump() -> None:
        number = 0
        while budget.take(pump):
            number += 1
        begun.append(number)

    pump()
    await until(8, took_s=LONG, live=True)
    assert begun == [16, 12, 9, 7, 6, 5, 4, 4]
    await until(11, took_s=SHORT, live=True)
    assert begun[8:] == [5, 6, 7]
    clock.now += LIVE_SECONDS
    await until(24, took_s=LONG, live=False)
    assert begun[-1] == STARTS_MAX
