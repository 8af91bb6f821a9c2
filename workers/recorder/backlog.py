"""Reports how many trace entries wait in this process, and are lost if the process dies."""

from datetime import timedelta
from typing import Final, Protocol

BACKLOG_INTERVAL: Final = timedelta(seconds=1)


class WaitingTraces(Protocol):
    """Trace entries of this process that are not in the stream of traces yet."""

    @property
    def waiting(self) -> int:
        """The number of waiting entries."""

    @property
    def behind(self) -> bool:
        """Whether the stream accepts nothing now, or takes entries more slowly than they come."""


class WaitingStore(Protocol):
    """The store of reports about trace entries that wait in workers."""

    async def waiting(self, worker: str, entries: int) -> None:
        """Store how many trace entries wait in the worker. The number 0 removes the report.

        The new report replaces the last report of the worker.

        Raises:
            UnavailableError: The database cannot be reached.
        """


class Backlog:
    """Reports how many trace entries wait while the stream accepts none; otherwise 0.

    Entries that were dropped for lack of space are not counted here, because the stream of traces
    reports them as lost.
    """

    def __init__(self, traces: WaitingTraces, store: WaitingStore, *, worker: str) -> None:
        self._traces = traces
        self._store = store
        self._worker = worker
        self._reported = 0

    async def report(self) -> None:
        """Report the number of waiting entries, if it has changed since the last report.

        Raises:
            UnavailableError: The database cannot be reached.
        """
        await self._report(self._traces.waiting if self._traces.behind else 0)

    async def report_last(self) -> None:
        """Report the waiting entries as lost, because the process ends.

        Raises:
            UnavailableError: The database cannot be reached.
        """
        await self._report(self._traces.waiting)

    async def _report(self, entries: int) -> None:
        if entries != self._reported:
            await self._store.waiting(self._worker, entries)
            self._reported = entries
