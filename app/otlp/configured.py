"""Opens the export of a process's telemetry by OTLP, if an endpoint is configured."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from app.config import Settings

if TYPE_CHECKING:
    from app.otlp.exporter import Otlp


@asynccontextmanager
async def configured_otlp(settings: Settings, instance: str) -> AsyncIterator["Otlp | None"]:
    """Yield the export of this process's telemetry; None if no endpoint is configured."""
    if settings.otlp_endpoint is None:
        yield None
        return
    # The modules for the export are imported only here, because Protobuf and httpx take 0.2 s of
    # CPU time and 12 MB. Without an endpoint, the process needs neither.
    from app.otlp.exporter import open_otlp  # noqa: PLC0415 - needed only with an endpoint

    endpoint = settings.otlp_endpoint.get_secret_value()
    async with open_otlp(endpoint, settings, instance) as otlp:
        yield otlp
