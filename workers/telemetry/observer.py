"""What a running worker reports, and to which observers."""

from collections.abc import Mapping
from typing import Protocol

from app.metrics.readings import Readings


class ObservedWorker(Protocol):
    """A running worker."""

    async def read(self) -> Readings:
        """Return its current metrics."""

    async def waits(self) -> Mapping[str, str]:
        """Return what each of its parts waits for, within a second; empty if nothing."""


class WorkerObserver(Protocol):
    """Observes a worker while it runs."""

    async def watch(self, observed: ObservedWorker) -> None:
        """Observe the worker until cancelled."""
