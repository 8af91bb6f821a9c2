"""Receivers in processes of their own, on the cores that are not measured.

    python -m tests.benchmarks.receivers <milliseconds>

is the slow one: it answers each request with 200 after so long, and prints its port. A GET is
answered with how many requests came in each tenth of a second since the first.
"""

import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from socket import create_connection
from typing import Final, NamedTuple, cast

import httptools
import httpx
import uvloop

from tests.benchmarks import cores
from tests.servers.ports import free_port

_NGINX: Final = """
daemon off; worker_processes 1; pid {home}/pid; error_log {home}/error.log;
events {{ worker_connections 16384; }}
http {{
  access_log off; keepalive_requests 1000000000; client_body_temp_path {home}/body;
  proxy_temp_path {home}/p; fastcgi_temp_path {home}/f; uwsgi_temp_path {home}/u;
  scgi_temp_path {home}/s;
  server {{ listen 127.0.0.1:{port} backlog=16384; location / {{ return 200; }} }}
}}
"""
_OK: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
_TICK_S: Final = 0.001
# What is counted together.
SLICE_S: Final = 0.1


class Receiver(NamedTuple):
    """What it is, and where."""

    name: str
    url: str

    async def counts(self) -> list[int]:
        """How many requests came in each tenth of a second; a slow one's only."""
        async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
            counts: list[int] = (await client.get(self.url)).json()
            return counts


def steady_rate(counts: Sequence[int]) -> float:
    """Requests a second in the middle of a run: neither while it begins nor while it ends."""
    busy = [index for index, count in enumerate(counts) if count]
    first, last = busy[0], busy[-1] + 1
    edge = max(1, (last - first) // 5)
    middle = counts[first + edge : last - edge] or counts[first:last]
    return sum(middle) / len(middle) / SLICE_S


@contextmanager
def receiver() -> Iterator[Receiver]:
    """One that answers at once: nginx when it is installed, else the tests' own subscriber."""
    nginx = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
    with tempfile.TemporaryDirectory() as home:
        port = free_port()
        if nginx:
            config = Path(home, "nginx.conf")
            config.write_text(_NGINX.format(home=home, port=port))
            command = [nginx, "-p", home, "-c", str(config)]
        else:
            command = [sys.executable, "-m", "tests.fakes.subscriber", "--port", str(port)]
        with _running(command):
            _await_port(port)
            yield Receiver("nginx" if nginx else "the tests' subscriber", _url(port))


@contextmanager
def slow_receiver(latency_ms: int) -> Iterator[Receiver]:
    """One that answers after `latency_ms`, to the millisecond."""
    with _running([sys.executable, "-m", __name__, str(latency_ms)], pipe=True) as process:
        assert process.stdout is not None
        yield Receiver(f"answers after {latency_ms} ms", _url(int(process.stdout.readline())))


@contextmanager
def _running(command: Sequence[str], *, pipe: bool = False) -> Iterator[subprocess.Popen[bytes]]:
    stdout = subprocess.PIPE if pipe else subprocess.DEVNULL
    with cores.on_cores(cores.OTHERS):
        process = subprocess.Popen(command, stdout=stdout)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(timeout=10)
        if process.stdout is not None:
            process.stdout.close()


def _url(port: int) -> str:
    return f"http://127.0.0.1:{port}/"


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


class _Waiting:
    """Who waits for an answer, in the order in which it is due: one timer for all."""

    def __init__(self, latency_s: float) -> None:
        self._latency_s = latency_s
        self._due: deque[tuple[float, asyncio.Transport]] = deque()
        self._ticking = False
        self._counts: list[int] = []
        self._first = 0.0

    def add(self, transport: asyncio.Transport) -> None:
        now = time.monotonic()
        self._count(now)
        if not self._latency_s:
            transport.write(_OK)
            return
        self._due.append((now + self._latency_s, transport))
        if not self._ticking:
            self._ticking = True
            asyncio.get_running_loop().call_later(self._latency_s, self._answer)

    def tell(self, transport: asyncio.Transport) -> None:
        said = json.dumps(self._counts).encode()
        transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(said), said))

    def _count(self, now: float) -> None:
        if not self._counts:
            self._first = now
        index = int((now - self._first) / SLICE_S)
        while len(self._counts) <= index:
            self._counts.append(0)
        self._counts[index] += 1

    def _answer(self) -> None:
        now = time.monotonic()
        while self._due and self._due[0][0] <= now + _TICK_S / 2:
            transport = self._due.popleft()[1]
            if not transport.is_closing():
                transport.write(_OK)
        self._ticking = bool(self._due)
        if self._due:
            wait = max(self._due[0][0] - now, _TICK_S)
            asyncio.get_running_loop().call_later(wait, self._answer)


class _Connection(asyncio.Protocol):
    def __init__(self, waiting: _Waiting) -> None:
        self._waiting = waiting
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        transport = cast("asyncio.Transport", self._transport)
        if self._parser.get_method() == b"GET":
            self._waiting.tell(transport)
        else:
            self._waiting.add(transport)


async def _serve(latency_ms: int) -> None:
    waiting = _Waiting(latency_ms / 1000)
    server = await asyncio.get_running_loop().create_server(
        lambda: _Connection(waiting), "127.0.0.1", 0, backlog=16_384
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1])))
