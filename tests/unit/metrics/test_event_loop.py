"""What is shown of the event loop, while it has something else to do."""

import asyncio
from time import monotonic

from app.metrics import catalogue
from app.metrics.event_loop import read_event_loop
from app.metrics.readings import Readings, Value

BUSY_S = 0.02


async def read() -> dict[str, Value]:
    readings = Readings()
    await read_event_loop(readings)
    return {metric.name: values[0][1] for metric, values in readings}


def be_busy() -> None:
    begun = monotonic()
    while monotonic() - begun < BUSY_S:
        pass


async def test_lag_is_the_time_for_which_others_had_the_loop() -> None:
    asyncio.get_running_loop().call_soon(be_busy)
    lag = (await read())[catalogue.LOOP_LAG.name]
    assert isinstance(lag, float)
    assert lag >= BUSY_S


async def test_all_tasks_that_are_not_done_are_counted() -> None:
    before = (await read())[catalogue.LOOP_TASKS.name]
    assert isinstance(before, int)
    async with asyncio.TaskGroup() as tasks:
        waiting = [tasks.create_task(asyncio.Event().wait()) for _ in range(3)]
        assert (await read())[catalogue.LOOP_TASKS.name] == before + 3
        for each in waiting:
            each.cancel()
