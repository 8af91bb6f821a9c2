"""Waiting until the workers have taken a change in."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Final

from app.domain.errors import StorageUnavailableError
from app.domain.status import WorkerStatus

# A worker that has not been heard of for this long is not waited for.
LIVE_WITHIN: Final = timedelta(seconds=5)
# Whoever changes something waits this long for the workers; their answer says whether they have it.
APPLIED_WITHIN: Final = timedelta(seconds=2)
# Asked again this often although nobody said anything: a worker may have died, a notice got lost.
ASK_EVERY: Final = timedelta(milliseconds=500)

LiveWorkers = Callable[[], Awaitable[Sequence[WorkerStatus]]]
TakeIn = Callable[[], Awaitable[None]]


def is_applied(workers: Sequence[WorkerStatus], number: int) -> bool:
    """Whether there are workers, and each has applied every change up to `number`."""
    return bool(workers) and all(worker.applied_change >= number for worker in workers)


class AppliedChanges:
    """What workers have applied; `notice` is called whenever one of them says so.

    `take_in` applies changes in this process, which comes first.
    """

    def __init__(
        self,
        live_workers: LiveWorkers,
        *,
        take_in: TakeIn | None = None,
        ask_every: timedelta = ASK_EVERY,
    ) -> None:
        self._live_workers = live_workers
        self._take_in = take_in
        self._ask_every = ask_every
        self._noticed = asyncio.Event()

    def notice(self) -> None:
        """Let everyone who waits look again."""
        self._noticed.set()
        self._noticed = asyncio.Event()

    async def wait(self, number: int, *, within: timedelta) -> bool:
        """Whether all live workers have applied change `number` `within` that time.

        False at once when there is no worker, and when the database cannot tell: the change itself
        is safe by then.
        """
        try:
            async with asyncio.timeout(within.total_seconds()):
                return await self._until_applied(number)
        except (TimeoutError, StorageUnavailableError):
            return False

    async def _until_applied(self, number: int) -> bool:
        if self._take_in:
            await self._take_in()
        while True:
            # Taken before asking, so that a notice that comes in between is not missed.
            noticed = self._noticed
            workers = await self._live_workers()
            if not workers or is_applied(workers, number):
                return bool(workers)
            await _set_within(noticed, self._ask_every.total_seconds())


async def _set_within(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
