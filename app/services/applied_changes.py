"""Waits until all workers have applied a change."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Final

from app.domain.errors import StorageUnavailableError
from app.domain.status import WorkerStatus

# If a worker's last report is older than this, changes do not wait for the worker.
LIVE_WITHIN: Final = timedelta(seconds=5)
# How long the response to a change waits for the workers. The response tells whether all workers
# have applied the change.
APPLIED_WITHIN: Final = timedelta(seconds=2)
# How often a waiting request reads the state of the workers, even without a notice. A worker may
# have died, or a notice may be lost.
ASK_EVERY: Final = timedelta(milliseconds=500)

LiveWorkers = Callable[[], Awaitable[Sequence[WorkerStatus]]]
TakeIn = Callable[[], Awaitable[None]]


def is_applied(workers: Sequence[WorkerStatus], number: int) -> bool:
    """Whether there are workers, and each has applied every change up to `number`."""
    return bool(workers) and all(worker.applied_change >= number for worker in workers)


class AppliedChanges:
    """Waits until the workers have applied a change. Call `notice` when a worker has reported.

    Each call of `wait` first applies all changes in this process.
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
        """Wake all waiting calls, so that they check the workers again."""
        self._noticed.set()
        self._noticed = asyncio.Event()

    async def wait(self, number: int, *, within: timedelta) -> bool:
        """Return whether all running workers have applied the change `number` in the time `within`.

        The result is False immediately if there are no workers, or if the database does not
        respond. The change itself is already stored.
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
            # Get the current event before the query. So a notice that comes during the query is not
            # missed.
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
