"""Exports the telemetry of a process regularly, as long as it runs."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from importlib.metadata import version
from typing import Final

import structlog

from app.config import Settings
from app.metrics.readings import Readings
from app.otlp.client import OtlpClient, Taken, otlp_client
from app.otlp.encoding import Resource, encoded_metrics, encoded_spans
from app.otlp.spans import SpanBuffer

SPANS_EVERY: Final = timedelta(seconds=2)
METRICS_EVERY: Final = timedelta(seconds=15)
# The number of spans in one request. To encode so many spans takes about two milliseconds.
SPANS_PER_REQUEST: Final = 128
# How long the last export may take when a process ends. Spans that are not exported by then are
# lost.
LAST_SPANS_MAX: Final = timedelta(seconds=2)

_log = structlog.get_logger(__name__)

Read = Callable[[], Awaitable[Readings]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Otlp:
    """Exports the telemetry of one process; created by `open_otlp`."""

    client: OtlpClient
    spans: SpanBuffer
    resource: Resource
    sample: float
    started_ns: int
    spans_every: timedelta = SPANS_EVERY
    metrics_every: timedelta = METRICS_EVERY

    async def run(self, read: Read) -> None:
        """Export spans, and the metrics that `read` returns, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._export_spans())
            tasks.create_task(self._export_metrics(read))

    async def flush(self) -> bool:
        """Export the waiting spans; return False if the endpoint could not be reached."""
        while spans := self.spans.first(SPANS_PER_REQUEST):
            taken = await self.client.export("traces", encoded_spans(spans, self.resource))
            if taken is Taken.LATER:
                return False
            self.spans.done(len(spans), exported=taken is Taken.YES)
        return True

    async def export_readings(self, readings: Readings) -> None:
        """Export values of metrics.

        If the export fails, nothing is lost, because the next export has newer totals.
        """
        body = await encoded_metrics(
            readings, self.resource, start_ns=self.started_ns, now_ns=time.time_ns()
        )
        await self.client.export("metrics", body)

    async def _export_spans(self) -> None:
        while True:
            await asyncio.sleep(self.spans_every.total_seconds())
            await self._survived("spans", self.flush)

    async def _export_metrics(self, read: Read) -> None:
        async def export() -> None:
            await self.export_readings(await read())

        while True:
            await asyncio.sleep(self.metrics_every.total_seconds())
            await self._survived("metrics", export)

    @staticmethod
    async def _survived(what: str, export: Callable[[], Awaitable[object]]) -> None:
        try:
            await export()
        except Exception:  # noqa: BLE001 - telemetry must not end a process
            _log.exception("otlp_export_broke", what=what)


@asynccontextmanager
async def open_otlp(
    endpoint: str,
    settings: Settings,
    instance: str,
    *,
    spans_every: timedelta = SPANS_EVERY,
    metrics_every: timedelta = METRICS_EVERY,
) -> AsyncIterator[Otlp]:
    """Yield the object that exports the telemetry of the process `instance` to `endpoint`.

    At the end of the block, the last spans are exported within a short time.
    """
    async with otlp_client(
        endpoint,
        settings.otlp_header_fields,
        ca_file=settings.ca_file,
    ) as client:
        otlp = Otlp(
            client=client,
            spans=SpanBuffer(),
            resource={
                "service.name": "angelia",
                "service.version": version("angelia"),
                "service.instance.id": instance,
            },
            sample=settings.otlp_sample,
            started_ns=time.time_ns(),
            spans_every=spans_every,
            metrics_every=metrics_every,
        )
        try:
            yield otlp
        finally:
            await _flushed(otlp)


async def _flushed(otlp: Otlp) -> None:
    try:
        async with asyncio.timeout(LAST_SPANS_MAX.total_seconds()):
            await otlp.flush()
    except TimeoutError:
        _log.warning("last_spans_not_exported", spans=len(otlp.spans))
