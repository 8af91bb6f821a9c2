"""What a running worker shows, and to which observers."""

from collections.abc import Mapping
from typing import Protocol

from app.metrics.readings import Readings


class ObservedWorker(Protocol):
    """A worker that runs."""

    async def read(self) -> Readings:
        """Its figures now."""

    async def waits(self) -> Mapping[str, str]:
        """Per part that it needs what is waited for, within a second; nothing where it is there."""


class WorkerObserver(Protocol):
    """Looks at a worker while it runs."""

    async def watch(self, observed: ObservedWorker) -> None:
        """Look at it until cancelled."""
