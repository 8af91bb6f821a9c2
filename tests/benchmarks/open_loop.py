"""A publisher whose pace does not depend on the answers: what waits is measured, not left out."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx

from tests.benchmarks import pace
from tests.benchmarks.stopwatch import timed
from tests.e2e.service import Service, created
from tests.fakes.egress import LOOPBACK
from workers.transport.transport import DeliveryTransport


@asynccontextmanager
async def publishing(service: Service, topic: str, *, rate: float) -> AsyncIterator[None]:
    """Publish at a fixed rate inside the block, timed from when each message was to be sent.

    All are acknowledged when the block ends. The transport is ours: that of httpx takes the longer
    for a request the more of them wait, and does not come back from that.
    """
    async with (
        httpx.AsyncClient(
            base_url=service.http.base_url,
            transport=DeliveryTransport(egress=LOOPBACK),
            timeout=30,
        ) as http,
        asyncio.TaskGroup() as tasks,
    ):

        def publish(at: float) -> None:
            tasks.create_task(_publish(http, topic, timed(at)))

        endless = tasks.create_task(_at_rate(rate, publish))
        try:
            yield
        finally:
            endless.cancel()


async def _at_rate(rate: float, publish: Callable[[float], None]) -> None:
    start = time.monotonic()
    for number in itertools.count():
        due = start + number / rate
        await pace.until(due)
        publish(due)


async def _publish(http: httpx.AsyncClient, topic: str, body: bytes) -> None:
    created(await http.post(f"/topics/{topic}", content=body))


async def publish_backlog(service: Service, topic: str, count: int, *, size: int = 900) -> None:
    """Publish so many messages that nobody times, in batches."""
    batch = b"\n".join([b'{"filler":"%s"}' % (b"x" * size)] * 500)
    for _ in range(count // 500):
        answer = await service.http.post(
            f"/topics/{topic}/batch",
            content=batch,
            headers={"Content-Type": "application/x-ndjson"},
        )
        answer.raise_for_status()
