import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from app.domain.errors import StorageUnavailableError
from app.domain.status import WorkerStatus
from app.services.applied_changes import AppliedChanges, is_applied

LONG = timedelta(seconds=30)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def a_worker(applied_change: int) -> WorkerStatus:
    return WorkerStatus(
        id="w",
        host="h",
        pid=1,
        applied_change=applied_change,
        partitions=0,
        started_at=NOW,
        seen_at=NOW,
    )


class Workers:
    """The live workers, as the database tells them."""

    def __init__(self, *applied: int) -> None:
        self.live = [a_worker(change) for change in applied]
        self.asked = asyncio.Event()
        self.questions = 0
        self.down = False

    async def __call__(self) -> list[WorkerStatus]:
        self.questions += 1
        assert self.questions < 10, "asked again and again without a reason"
        self.asked.set()
        if self.down:
            raise StorageUnavailableError("down")
        return self.live


@pytest.mark.parametrize(
    ("applied", "expected"),
    [((), False), ((4,), False), ((5,), True), ((6, 5), True), ((6, 4), False)],
)
def test_a_change_is_applied_when_every_worker_has_it(
    applied: tuple[int, ...], *, expected: bool
) -> None:
    assert is_applied([a_worker(change) for change in applied], 5) is expected


async def test_does_not_wait_when_all_have_it_or_nobody_is_there() -> None:
    assert await AppliedChanges(Workers(7)).wait(7, within=LONG)
    assert not await AppliedChanges(Workers()).wait(7, within=LONG)


async def test_looks_again_when_a_worker_says_something() -> None:
    workers = Workers(6)
    applied = AppliedChanges(workers, ask_every=LONG)
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(applied.wait(7, within=LONG))
        await workers.asked.wait()
        workers.live = [a_worker(7)]
        applied.notice()
    assert waiting.result()


async def test_who_looked_again_in_vain_waits_for_the_next_word() -> None:
    workers = Workers(6)
    applied = AppliedChanges(workers, ask_every=LONG)
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(applied.wait(7, within=LONG))
        for _ in range(2):
            await workers.asked.wait()
            workers.asked.clear()
            applied.notice()
        await workers.asked.wait()
        workers.live = [a_worker(7)]
        applied.notice()
    assert waiting.result()
    assert workers.questions == 4


async def test_gives_up_in_time() -> None:
    assert not await AppliedChanges(Workers(6)).wait(7, within=timedelta(milliseconds=20))


async def test_a_database_that_cannot_tell_is_no_error() -> None:
    workers = Workers(7)
    workers.down = True
    assert not await AppliedChanges(workers).wait(7, within=LONG)
