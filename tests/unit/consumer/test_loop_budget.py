"""The budget of catch-up deliveries per turn of the loop."""

import asyncio

from workers.consumer.loop_budget import STARTS_PER_TURN, LoopBudget


class Laggard:
    """Takes as many turns as it gets until it has had enough; remembers how many each time."""

    def __init__(self, budget: LoopBudget, wants: int) -> None:
        self._budget = budget
        self.wants = wants
        self.began: list[int] = []

    def pump(self) -> None:
        began = 0
        while self.wants and self._budget.take(self.pump):
            self.wants -= 1
            began += 1
        self.began.append(began)


async def finished(*laggards: Laggard) -> None:
    async with asyncio.timeout(60):
        while any(laggard.wants for laggard in laggards):  # noqa: ASYNC110 - turns are counted
            await asyncio.sleep(0)


async def test_a_backlog_takes_its_budget_in_each_turn_until_it_is_done() -> None:
    laggard = Laggard(LoopBudget(asyncio.get_running_loop()), 2 * STARTS_PER_TURN + 1)
    laggard.pump()
    assert laggard.began == [STARTS_PER_TURN]
    await finished(laggard)
    assert laggard.began == [STARTS_PER_TURN, STARTS_PER_TURN, 1]


async def test_laggards_take_turns_and_none_is_forgotten() -> None:
    budget = LoopBudget(asyncio.get_running_loop())
    laggards = [Laggard(budget, 3 * STARTS_PER_TURN) for _ in range(3)]
    for laggard in laggards:
        laggard.pump()
        laggard.pump()  # asking twice gives no second place in the queue
    await finished(*laggards)
    assert all(sum(laggard.began) == 3 * STARTS_PER_TURN for laggard in laggards)
    assert laggards[1].began[:3] == [0, 0, STARTS_PER_TURN]


async def test_who_begins_in_a_later_turn_has_a_budget_of_its_own() -> None:
    budget = LoopBudget(asyncio.get_running_loop())
    for _ in range(3):
        laggard = Laggard(budget, STARTS_PER_TURN)
        laggard.pump()
        assert laggard.wants == 0
        await asyncio.sleep(0)


async def test_it_is_known_of_who_waits_that_it_will_be_resumed() -> None:
    budget = LoopBudget(asyncio.get_running_loop())
    laggard, other = Laggard(budget, STARTS_PER_TURN + 1), Laggard(budget, 1)
    laggard.pump()
    assert budget.is_waiting(laggard.pump)
    assert not budget.is_waiting(other.pump)
    await finished(laggard)
    assert not budget.is_waiting(laggard.pump)
