"""The interface between a running worker and the observers of its metrics and state."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from app.metrics.readings import Readings


class ObservedWorker(Protocol):
    """A running worker, as its observers see it."""

    async def read(self) -> Readings:
        """Return the worker's current metrics."""

    async def waits(self) -> Mapping[str, str]:
        """Return what each part of the worker waits for; empty if none waits.

        The call takes at most a second.
        """

    def throttled(self) -> Sequence[str]:
        """Return a line of text about each broker that throttles this worker."""


class WorkerObserver(Protocol):
    """Observes a worker while it runs."""

    async def watch(self, observed: ObservedWorker) -> None:
        """Observe the worker until cancelled."""
