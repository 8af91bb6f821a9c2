"""A worker's metrics and spans, sent to an OTLP endpoint."""

from app.otlp.exporter import Otlp
from workers.telemetry.observer import Observed


class Exported:
    """Exports what is observed, by `otlp`."""

    def __init__(self, otlp: Otlp) -> None:
        self._otlp = otlp

    async def watch(self, observed: Observed) -> None:
        """Export it until cancelled."""
        await self._otlp.run(observed.read)
