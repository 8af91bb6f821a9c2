import asyncio
import time
from datetime import timedelta

import pytest

from app.log.deadlines import CallDeadline

TICK_S = 0.001
SHORT = timedelta(seconds=3 * TICK_S)


class Told:
    """What is over, as it was told."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._some = asyncio.Event()

    def __call__(self, name: str) -> None:
        self.names.append(name)
        self._some.set()

    async def once(self) -> None:
        async with asyncio.timeout(60):
            await self._some.wait()


async def test_what_does_not_end_in_time_is_over_and_what_did_is_not() -> None:
    told, patience = Told(), CallDeadline(SHORT, tick_s=TICK_S)
    patience.begin("ended", lambda: told("ended"))
    patience.begin("stuck", lambda: told("stuck"))
    patience.end("ended")
    await told.once()
    assert told.names == ["stuck"]


async def test_it_is_over_only_after_the_whole_limit() -> None:
    told, patience = Told(), CallDeadline(timedelta(seconds=0.02), tick_s=0.005)
    begun = time.monotonic()
    patience.begin("stuck", lambda: told("stuck"))
    await told.once()
    assert time.monotonic() - begun >= 0.02


async def test_a_process_that_stood_still_hears_what_came_meanwhile_before_its_time_is_over() -> (
    None
):
    told, patience = Told(), CallDeadline(SHORT, tick_s=TICK_S)
    loop = asyncio.get_running_loop()
    patience.begin("answered", lambda: told("answered"))
    # As if the machine had run others for a hundred ticks, in which the answer came.
    stood_still_until = time.monotonic() + 100 * TICK_S
    while time.monotonic() < stood_still_until:
        pass
    loop.call_soon(patience.end, "answered")
    patience.begin("later", lambda: told("later"))
    await told.once()
    assert told.names == ["later"]


async def test_what_is_begun_again_after_a_pause_has_its_whole_time() -> None:
    told, patience = Told(), CallDeadline(SHORT, tick_s=TICK_S)
    patience.begin("first", lambda: told("first"))
    await told.once()
    again = Told()
    patience.begin("second", lambda: again("second"))
    await again.once()
    assert (told.names, again.names) == (["first"], ["second"])


async def test_a_block_beyond_its_limit_raises() -> None:
    patience = CallDeadline(SHORT, tick_s=TICK_S)
    with pytest.raises(TimeoutError), patience.limit():
        await asyncio.Event().wait()


async def test_a_block_within_its_limit_goes_on() -> None:
    patience = CallDeadline(timedelta(seconds=5), tick_s=TICK_S)
    with patience.limit():
        await asyncio.sleep(0)
    with patience.limit():
        pass


async def test_a_task_that_others_cancel_is_cancelled_and_not_late() -> None:
    patience = CallDeadline(timedelta(seconds=5), tick_s=TICK_S)
    waiting = asyncio.Event()

    async def wait() -> None:
        with patience.limit():
            waiting.set()
            await asyncio.Event().wait()

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(wait())
        await waiting.wait()
        task.cancel()
    assert task.cancelled()
