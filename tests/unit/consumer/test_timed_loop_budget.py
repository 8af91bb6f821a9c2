import asyncio
from collections.abc import Callable

from workers.consumer.loop_budget import LoopBudget


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def begun_in_a_turn(budget: LoopBudget, resume: Callable[[], None], *, clock: Clock) -> int:
    begun = 0
    while budget.take(resume):
        begun += 1
        clock.now += 0.25
    return begun


async def test_no_more_is_begun_in_a_turn_than_its_starts_and_its_time() -> None:
    clock = Clock()
    by_number = LoopBudget(asyncio.get_running_loop(), starts=3, clock=clock)
    by_time = LoopBudget(asyncio.get_running_loop(), starts=100, seconds=1.0, clock=clock)
    assert begun_in_a_turn(by_number, lambda: None, clock=clock) == 3
    assert begun_in_a_turn(by_time, lambda: None, clock=clock) == 4


async def test_who_had_to_wait_goes_on_in_the_next_turn() -> None:
    clock, taken = Clock(), list[int]()
    budget = LoopBudget(asyncio.get_running_loop(), starts=100, seconds=1.0, clock=clock)

    def resume() -> None:
        taken.append(begun_in_a_turn(budget, resume, clock=clock))

    resume()
    for _ in range(10):
        await asyncio.sleep(0)
    assert taken[:3] == [4, 4, 4]


async def test_time_in_which_nothing_was_begun_is_not_counted() -> None:
    clock = Clock()
    budget = LoopBudget(asyncio.get_running_loop(), starts=100, seconds=1.0, clock=clock)
    assert budget.take(lambda: None)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    clock.now += 10.0
    assert begun_in_a_turn(budget, lambda: None, clock=clock) == 4
