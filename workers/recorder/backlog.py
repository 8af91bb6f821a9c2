"""Reports how many trace entries wait in this process: if it dies, so many are lost."""

from datetime import timedelta
from typing import Final, Protocol

BACKLOG_INTERVAL: Final = timedelta(seconds=1)


class WaitingTraces(Protocol):
    """Entries that the traces stream does not have so far."""

    @property
    def waiting(self) -> int:
        """How many there are."""

    @property
    def behind(self) -> bool:
        """Whether the stream takes nothing now, or is slower than they come."""


class WaitingStore(Protocol):
    """Where it is reported."""

    async def waiting(self, worker: str, entries: int) -> None:
        """So many of that worker are missing, in place of what was reported of it before.

        Raises UnavailableError.
        """


class Backlog:
    """Reports to the database what waits while the stream takes nothing, and takes it back later.

    Entries that find no room are not meant: they are lost for certain, which the stream reports.
    """

    def __init__(self, traces: WaitingTraces, store: WaitingStore, *, worker: str) -> None:
        self._traces = traces
        self._store = store
        self._worker = worker
        self._reported = 0

    async def report(self) -> None:
        """Report it, if it has changed; raises UnavailableError."""
        await self._report(self._traces.waiting if self._traces.behind else 0)

    async def report_last(self) -> None:
        """What waits now is lost: the process ends. Raises UnavailableError."""
        await self._report(self._traces.waiting)

    async def _report(self, entries: int) -> None:
        if entries != self._reported:
            await self._store.waiting(self._worker, entries)
            self._reported = entries
