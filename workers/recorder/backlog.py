"""How many trace entries wait in this process, told beforehand: if it dies, so many are lost."""

from datetime import timedelta
from typing import Final, Protocol

TELL_EVERY: Final = timedelta(seconds=1)


class WaitingTraces(Protocol):
    """Entries that the traces stream does not have so far."""

    @property
    def waiting(self) -> int:
        """How many there are."""

    @property
    def behind(self) -> bool:
        """Whether the stream takes nothing now, or is slower than they come."""


class WaitingStore(Protocol):
    """Where it is told."""

    async def waiting(self, worker: str, entries: int) -> None:
        """So many of that worker are missing, in place of what was said of it before.

        Raises UnavailableError.
        """


class Backlog:
    """Tells the database what waits while the stream takes nothing, and takes it back after that.

    Entries that find no room are not meant: they are lost for certain, and the stream is told.
    """

    def __init__(self, traces: WaitingTraces, store: WaitingStore, *, worker: str) -> None:
        self._traces = traces
        self._store = store
        self._worker = worker
        self._told = 0

    async def tell(self) -> None:
        """Tell it, if it has changed; raises UnavailableError."""
        await self._tell(self._traces.waiting if self._traces.behind else 0)

    async def tell_last(self) -> None:
        """What waits now is lost: the process ends. Raises UnavailableError."""
        await self._tell(self._traces.waiting)

    async def _tell(self, entries: int) -> None:
        if entries != self._told:
            await self._store.waiting(self._worker, entries)
            self._told = entries
