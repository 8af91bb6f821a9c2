"""CPU per request of our transport and of stock httpx, in one run against one receiver.

    python -m tests.benchmarks.bench_transport [--seconds 1.5] [--connections 1 16 64 256]

The receiver is nginx when it is installed, otherwise the tests' own subscriber in a process of its
own. CPU is this process's user and system time; it is the figure to compare, because it hardly
depends on what else the machine does. Results are printed and written to
`build/bench/transport.json`.
"""

import argparse
import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from socket import create_connection, create_server
from typing import Final, NamedTuple

import httpx
import uvloop

from app.domain.message import Message, Partition, Record
from app.domain.subscription import Subscription
from tests.fakes.egress import LOOPBACK
from workers.delivery.sender import Sender
from workers.transport.transport import DeliveryTransport

BODY: Final = b'{"payload":"' + b"x" * 1010 + b'"}'
REPORT: Final = Path("build/bench/transport.json")
STOCK: Final = "stock httpx"

_NGINX: Final = """
daemon off; worker_processes 1; pid {home}/pid; error_log {home}/error.log;
events {{ worker_connections 8192; }}
http {{
  access_log off; keepalive_requests 1000000000; client_body_temp_path {home}/body;
  proxy_temp_path {home}/p; fastcgi_temp_path {home}/f; uwsgi_temp_path {home}/u;
  scgi_temp_path {home}/s;
  server {{ listen 127.0.0.1:{port} backlog=8192; location / {{ return 200; }} }}
}}
"""

Post = Callable[[], Awaitable[object]]


class Figures(NamedTuple):
    """What one client did with so many connections."""

    client: str
    connections: int
    requests: int
    cpu_us: float
    per_second: float
    p50_ms: float
    p99_ms: float


@asynccontextmanager
async def stock(url: str, connections: int) -> AsyncIterator[Post]:
    """httpx as it comes, with as many connections as there are requests at once."""
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
    headers = {"Content-Type": "application/json"}
    async with httpx.AsyncClient(limits=limits) as client:
        yield lambda: client.post(url, content=BODY, headers=headers)


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
        bench = Subscription(id="b", topic="bench.topic", name="b", endpoint=url)
        destination = ours.destination(bench)
        yield lambda: destination.attempt(message, retry_count=0)


CLIENTS: Final = {STOCK: stock, "our transport": transport, "our sender": sender}


async def measure(client: str, url: str, *, connections: int, seconds: float) -> Figures:
    """Closed loop: `connections` coroutines that post one after the other, for `seconds`."""
    async with CLIENTS[client](url, connections) as post:
        await _run(post, connections, seconds / 3)
        cpu, start = time.process_time(), time.perf_counter()
        latencies = sorted(await _run(post, connections, seconds))
        cpu, elapsed = time.process_time() - cpu, time.perf_counter() - start
    count = len(latencies)
    return Figures(
        client=client,
        connections=connections,
        requests=count,
        cpu_us=cpu / count * 1e6,
        per_second=count / elapsed,
        p50_ms=latencies[count // 2] * 1e3,
        p99_ms=latencies[count * 99 // 100] * 1e3,
    )


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


@contextmanager
def receiver() -> Iterator[tuple[str, str]]:
    """A receiver on loopback: its name and its URL."""
    nginx = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
    with tempfile.TemporaryDirectory() as home, create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
        probe.close()
        if nginx:
            config = Path(home, "nginx.conf")
            config.write_text(_NGINX.format(home=home, port=port))
            command = [nginx, "-p", home, "-c", str(config)]
        else:
            command = [sys.executable, "-m", "tests.fakes.subscriber", "--port", str(port)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            _await_port(port)
            yield "nginx" if nginx else "the tests' subscriber", f"http://127.0.0.1:{port}/"
        finally:
            process.terminate()
            process.wait(timeout=10)


def _await_port(port: int) -> None:
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    message = f"the receiver does not listen on port {port}"
    raise RuntimeError(message)


def compare(connections: Sequence[int], seconds: float) -> list[Figures]:
    """Measure every client at each number of connections, print the table, write the report."""
    figures = list[Figures]()
    with receiver() as (name, url):
        print(f"\nreceiver: {name}; {len(BODY)}-byte POSTs; uvloop")
        print("connections  client         CPU us/request  vs stock   req/s   p50 ms   p99 ms")
        for count in connections:
            of_stock = 0.0
            for client in CLIENTS:
                one = uvloop.run(measure(client, url, connections=count, seconds=seconds))
                of_stock = of_stock or one.cpu_us
                figures.append(one)
                print(
                    f"{count:11}  {client:13}  {one.cpu_us:14.1f}  {of_stock / one.cpu_us:7.1f}x"
                    f"  {one.per_second:6.0f}  {one.p50_ms:7.2f}  {one.p99_ms:7.2f}"
                )
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    report = {"receiver": name, "results": [one._asdict() for one in figures]}
    REPORT.write_text(json.dumps(report, indent=2) + "\n")
    return figures


def test_transport_against_stock_httpx() -> None:
    assert len(compare((1, 16, 64, 256), 1.5)) == 4 * len(CLIENTS)


def main() -> None:
    """Run with other figures than `make bench` does."""
    parser = argparse.ArgumentParser(description="Our transport against stock httpx.")
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 16, 64, 256])
    arguments = parser.parse_args()
    compare(arguments.connections, arguments.seconds)


if __name__ == "__main__":
    main()
