"""HTTP clients that post in a closed loop: ours, and those that a user would take."""

import asyncio
import re
import resource
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import aiohttp
import httpx

from app.domain.catalogue.subscription import DeliveryPolicy, Subscription
from app.domain.message import Message, Partition, Record
from tests.benchmarks.percentiles import percentile
from tests.fakes.egress import LOOPBACK
from workers.delivery.sender import Sender
from workers.transport.transport import DeliveryTransport

BODY: Final = b'{"payload":"' + b"x" * 1010 + b'"}'
STOCK: Final = "stock httpx"
AIOHTTP: Final = "aiohttp"
TRANSPORT: Final = "our transport"
SENDER: Final = "our sender"
WRK: Final = "wrk"

_UNITS_MS: Final = {"us": 0.001, "ms": 1.0, "s": 1000.0}

Post = Callable[[], Awaitable[object]]


class Case(NamedTuple):
    """Where, by how many connections, and for how long, is posted."""

    url: str
    connections: int
    seconds: float


@asynccontextmanager
async def stock(url: str, connections: int) -> AsyncIterator[Post]:
    """httpx as it comes, with as many connections as there are requests at once."""
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
    headers = {"Content-Type": "application/json"}
    async with httpx.AsyncClient(limits=limits, trust_env=False) as client:
        yield lambda: client.post(url, content=BODY, headers=headers)


@asynccontextmanager
async def by_aiohttp(url: str, connections: int) -> AsyncIterator[Post]:
    """aiohttp as it comes, with as many connections as there are requests at once."""
    headers = {"Content-Type": "application/json"}
    connector = aiohttp.TCPConnector(limit=connections)
    async with aiohttp.ClientSession(connector=connector, headers=headers) as client:

        async def post() -> None:
            async with client.post(url, data=BODY) as response:
                await response.read()

        yield post


@asynccontextmanager
async def transport(url: str, connections: int) -> AsyncIterator[Post]:
    """Our transport under httpx's public request and response."""
    del connections
    target = httpx.URL(url)
    headers = httpx.Headers(
        [(b"Host", target.netloc), (b"Content-Type", b"application/json"), (b"X-Id", b"0123456789")]
    )
    extensions = {"timeout": {"read": 10.0}}
    ours = DeliveryTransport(egress=LOOPBACK)

    def post() -> Awaitable[object]:
        stream = httpx.ByteStream(BODY)
        return ours.handle_async_request(
            httpx.Request("POST", target, headers=headers, stream=stream, extensions=extensions)
        )

    yield post
    await ours.aclose()


@asynccontextmanager
async def sender(url: str, connections: int) -> AsyncIterator[Post]:
    """The worker's sender: a message with its headers in, an outcome out."""
    del connections
    headers = [(b"id", b"0b2ff1a5-7a3c-4f0e-9b8e-6a5b4c3d2e1f"), (b"ct", b"application/json")]
    message = Message(Record(1, 1, None, BODY, headers), Partition("bench.topic", 0))
    async with Sender(egress=LOOPBACK) as ours:
        patient = DeliveryPolicy(request_timeout=timedelta(seconds=30))
        bench = Subscription(id="b", topic="bench.topic", name="b", endpoint=url, policy=patient)
        destination = ours.destination(bench)
        yield lambda: destination.attempt(message, retry_count=0)


CLIENTS: Final = {STOCK: stock, AIOHTTP: by_aiohttp, TRANSPORT: transport, SENDER: sender}


async def measure(client: str, case: Case) -> dict[str, float]:
    """A coroutine for each connection posts one after the other, for the case's seconds."""
    async with CLIENTS[client](case.url, case.connections) as post:
        await _run(post, case.connections, case.seconds / 3)
        cpu, start = time.process_time(), time.perf_counter()
        latencies = await _run(post, case.connections, case.seconds)
        cpu, elapsed = time.process_time() - cpu, time.perf_counter() - start
    count = len(latencies)
    return {
        "CPU us/request": cpu / count * 1e6,
        "requests/s": count / elapsed,
        "p50 ms": percentile(latencies, 50) * 1e3,
        "p99 ms": percentile(latencies, 99) * 1e3,
    }


async def _run(post: Post, connections: int, seconds: float) -> list[float]:
    end, latencies = time.perf_counter() + seconds, list[float]()

    async def one_after_the_other() -> None:
        start = time.perf_counter()
        while start < end:
            await post()
            now = time.perf_counter()
            latencies.append(now - start)
            start = now

    await asyncio.gather(*(one_after_the_other() for _ in range(connections)))
    return latencies


def has_wrk() -> bool:
    """Whether wrk is installed."""
    return shutil.which("wrk") is not None


def by_wrk(case: Case) -> dict[str, float]:
    """wrk, written in C, on one thread: about what the wire and the receiver allow."""
    with TemporaryDirectory() as home:
        script = Path(home, "post.lua")
        script.write_text(
            f'wrk.method = "POST"\nwrk.body = string.rep("x", {len(BODY)})\n'
            'wrk.headers["Content-Type"] = "application/json"\n'
        )
        seconds = max(1, round(case.seconds))
        command = ["wrk", f"-d{seconds}s", f"-c{case.connections}", "-t1", "--latency"]
        before = _children_s()
        said = subprocess.run(
            [*command, "-s", str(script), case.url], check=True, capture_output=True, text=True
        ).stdout
        cpu = _children_s() - before
    found = re.search(r"(\d+) requests in ([\d.]+)s", said)
    assert found, said
    count = int(found[1])
    return {
        "CPU us/request": cpu / count * 1e6,
        "requests/s": count / float(found[2]),
        "p50 ms": _latency(said, 50),
        "p99 ms": _latency(said, 99),
    }


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _latency(said: str, percent: int) -> float:
    found = re.search(rf"{percent}%\s+([\d.]+)(us|ms|s)", said)
    assert found, said
    return float(found[1]) * _UNITS_MS[found[2]]
