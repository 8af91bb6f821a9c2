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
    # Import only now: Protobuf and httpx take 0.2 s of CPU and 12 MB, which is not needed without
    # an endpoint.
    from app.otlp.exporter import open_otlp  # noqa: PLC0415 - needed only with an endpoint

    endpoint = settings.otlp_endpoint.get_secret_value()
    async with open_otlp(endpoint, settings, instance) as otlp:
        yield otlp
