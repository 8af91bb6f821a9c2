"""Sends a worker's metrics and spans to an OTLP endpoint."""

from typing import TYPE_CHECKING

from workers.telemetry.observer import ObservedWorker

if TYPE_CHECKING:
    from app.otlp.exporter import Otlp


class Exported:
    """Exports the metrics of a worker through `otlp`."""

    def __init__(self, otlp: "Otlp") -> None:
        self._otlp = otlp

    async def watch(self, observed: ObservedWorker) -> None:
        """Export the worker's metrics until cancelled."""
        await self._otlp.run(observed.read)
