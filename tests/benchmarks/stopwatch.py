"""A receiver in a process of its own that times what it gets, so that measuring costs little.

    python -m tests.benchmarks.stopwatch

prints its port. Each request is answered with 200; one whose body begins with `{"at": <monotonic
seconds>,` adds the time since then to the latencies, and one whose body begins with `{"fail"` is
refused with 500. `GET /latencies` answers with those since the last time it was asked, in
milliseconds; `GET /busiest` with the most requests that came within one second since the last time
it was asked; `GET /count` with the number of requests that were not refused, and after it when the
last of them came, and how many were refused.
"""

import asyncio
import json
import sys
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple, cast

import httptools
import httpx
import uvloop

AT: Final = b'{"at": '
FAIL: Final = b'{"fail"'
_FAILED: Final = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"
_OK: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


def timed(at: float, *, size: int = 900) -> bytes:
    """A body that is timed from the moment `at` of the monotonic clock."""
    return AT + b'%.6f, "filler": "%s"}' % (at, b"x" * size)


class Counts(NamedTuple):
    """Requests that were taken, when the last one came (monotonic), and those refused."""

    taken: int
    last_at: float
    refused: int


class Stopwatch:
    """The receiver, from where the measuring is done."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/"
        self._http = httpx.AsyncClient(base_url=self.url, trust_env=False)

    async def latencies(self) -> list[float]:
        """Milliseconds from `at` to the request, of the timed ones since the last call."""
        found: list[float] = (await self._http.get("/latencies")).json()
        return found

    async def busiest(self) -> int:
        """The most requests of any one second (sliding) since the last call."""
        found: int = (await self._http.get("/busiest")).json()
        return found

    async def counts(self) -> "Counts":
        """What has come so far."""
        return Counts(*(await self._http.get("/count")).json())

    async def aclose(self) -> None:
        """Close the connection to it."""
        await self._http.aclose()


@asynccontextmanager
async def stopwatch() -> AsyncIterator[Stopwatch]:
    """A receiver as long as the block runs."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __name__, stdout=asyncio.subprocess.PIPE
    )
    try:
        port = int(await cast("asyncio.StreamReader", process.stdout).readline())
        watch = Stopwatch(port)
        yield watch
        await watch.aclose()
    finally:
        process.kill()
        await process.wait()


class _Times:
    """What all connections have got."""

    def __init__(self) -> None:
        self.counts = [0, 0.0, 0]
        self.latencies: list[float] = []
        self.second = deque[float]()
        self.busiest = 0

    def answer(self, path: bytes) -> bytes:
        """The answer to a question for them."""
        if path == b"/count":
            said = json.dumps(self.counts)
        elif path == b"/busiest":
            said, self.busiest = json.dumps(self.busiest), 0
        else:
            said = json.dumps([round(each, 3) for each in self.latencies])
            self.latencies = []
        return f"HTTP/1.1 200 OK\r\nContent-Length: {len(said)}\r\n\r\n{said}".encode()

    def take(self, body: bytes, now: float) -> bytes:
        """The answer to a delivery."""
        self.second.append(now)
        while self.second[0] <= now - 1.0:
            self.second.popleft()
        self.busiest = max(self.busiest, len(self.second))
        if body.startswith(FAIL):
            self.counts[2] += 1
            return _FAILED
        self.counts[0] += 1
        self.counts[1] = now
        if body.startswith(AT):
            at = float(body[len(AT) : body.index(b",")])
            self.latencies.append((now - at) * 1000)
        return _OK


class _Connection(asyncio.Protocol):
    def __init__(self, times: _Times) -> None:
        self._times = times
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._first = b""
        self._path = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self._path = url

    def on_body(self, body: bytes) -> None:
        self._first = self._first or body

    def on_message_complete(self) -> None:
        first, self._first = self._first, b""
        transport = cast("asyncio.Transport", self._transport)
        if self._parser.get_method() == b"GET":
            transport.write(self._times.answer(self._path))
            return
        transport.write(self._times.take(first, time.monotonic()))


async def _serve() -> None:
    times = _Times()
    server = await asyncio.get_running_loop().create_server(
        lambda: _Connection(times), "127.0.0.1", 0, backlog=4096
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve())
