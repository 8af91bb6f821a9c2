import asyncio
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from app.domain.errors import StorageUnavailableError
from app.services.periodic import repeat

SHORT = timedelta(microseconds=1)


class Chore:
    """Fails at first in the ways given, and says when it was done so often."""

    def __init__(self, *failures: Exception, times: int) -> None:
        self._failures = list(failures)
        self._left = times
        self.done = asyncio.Event()

    async def __call__(self) -> None:
        self._left -= 1
        if self._left == 0:
            self.done.set()
        if self._failures:
            raise self._failures.pop(0)


async def done(chore: Chore) -> None:
    running = asyncio.create_task(repeat(chore, every=SHORT, name="sweep"))
    try:
        async with asyncio.timeout(60):
            await chore.done.wait()
    finally:
        running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_chore_is_done_again_and_again_until_it_is_cancelled() -> None:
    await done(Chore(times=5))


async def test_what_cannot_be_done_now_is_tried_again() -> None:
    with capture_logs() as logs:
        await done(Chore(StorageUnavailableError("down"), times=2))
    found = [(entry["event"], entry["chore"]) for entry in logs]
    assert found == [("chore_put_off", "sweep"), ("works_again", "sweep")]


async def test_a_defect_of_a_chore_ends_nothing_and_is_told() -> None:
    with capture_logs() as logs:
        await done(Chore(ZeroDivisionError(), times=2))
    assert [(entry["event"], entry["chore"]) for entry in logs] == [("chore_broke", "sweep")]
