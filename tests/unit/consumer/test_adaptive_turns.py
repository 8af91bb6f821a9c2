"""How many catch-up deliveries a turn of the loop may begin, by how long turns take."""

import asyncio
from itertools import pairwise

import pytest

from tests.unit.consumer.test_timed_turns import Clock
from workers.consumer.turns import (
    STARTS_MAX,
    STARTS_MIN,
    STARTS_PER_TURN,
    TURN_SECONDS,
    Turns,
    starts_after,
)

LONG, SHORT = TURN_SECONDS * 1.1, TURN_SECONDS * 0.9


@pytest.mark.parametrize(
    ("starts", "took_s", "all_used", "next_starts"),
    [
        (20, LONG, True, 10),
        (20, LONG, False, 10),
        (20, SHORT, True, 21),
        (20, SHORT, False, 20),
        (STARTS_MIN, LONG, True, STARTS_MIN),
        (STARTS_MIN + 1, LONG, True, STARTS_MIN),
        (STARTS_MAX, SHORT, True, STARTS_MAX),
    ],
)
def test_a_long_turn_halves_the_budget_and_a_short_one_that_used_it_adds_one(
    starts: int,
    took_s: float,
    all_used: bool,  # noqa: FBT001 - a column of the table
    next_starts: int,
) -> None:
    assert starts_after(starts, took_s=took_s, all_used=all_used) == next_starts


@pytest.mark.parametrize("each_us", [5, 20, 60, 150])
def test_turns_settle_at_the_time_they_may_take(each_us: int) -> None:
    starts, took = STARTS_PER_TURN, list[float]()
    for _ in range(500):
        took.append(starts * each_us / 1e6)
        starts = starts_after(starts, took_s=took[-1], all_used=True)
    assert max(took[100:]) <= TURN_SECONDS + each_us / 1e6
    # The idle CPU is used: no turn is shorter than half of it, or they are as full as they may be.
    assert min(took[100:]) >= min(TURN_SECONDS / 2 - each_us / 1e6, STARTS_MAX * each_us / 1e6)


async def test_laggards_begin_less_in_a_turn_while_others_make_turns_long() -> None:
    clock = Clock()
    turns = Turns(asyncio.get_running_loop(), adapts=True, clock=clock)
    begun = list[int]()

    def pump() -> None:
        number = 0
        while turns.take(pump):
            number += 1
        begun.append(number)

    pump()
    while len(begun) < 5:
        clock.now += LONG  # what the others do in this turn
        await asyncio.sleep(0)
    assert begun == [16, 8, 4, 4, 4]
    while len(begun) < 10:
        clock.now += SHORT
        await asyncio.sleep(0)
    assert all(later > earlier for earlier, later in pairwise(begun[5:]))
