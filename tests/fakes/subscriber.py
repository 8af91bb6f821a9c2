"""A subscriber for tests: a real HTTP server on loopback that answers by a script.

It can run as a process of its own, for tests that kill other processes:

    python -m tests.fakes.subscriber --port 0 --latency 0.05 --log received.txt

The process prints its port. Before it answers a request, it writes a line `<wall clock>
<Hermes-Message-Id> <Hermes-Retry-Count>` to the file.
"""

import argparse
import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO, cast

import httptools

# The default time limit of `wait_for` and `wait_until`, in seconds.
PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A received request. Names of headers are in lower case.

    `at` is the time on the monotonic clock, and `at_wall` the Unix time, both in seconds.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    at: float
    at_wall: float

    @property
    def message_id(self) -> str:
        """The id of the message; empty if the request has none."""
        return self.headers.get("hermes-message-id", "")

    @property
    def retry_count(self) -> int:
        """The number of earlier attempts, as the request says."""
        return int(self.headers.get("hermes-retry-count", "0"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer. It is sent `delay` seconds after the whole request was received."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    delay: float = 0.0

    def encoded(self) -> bytes:
        """Return the answer as bytes."""
        try:
            phrase = HTTPStatus(self.status).phrase
        except ValueError:
            phrase = "Unassigned"
        lines = [f"HTTP/1.1 {self.status} {phrase}"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        lines += [f"Content-Length: {len(self.body)}", "", ""]
        return "\r\n".join(lines).encode("latin-1") + self.body


Script = Callable[[Received], Reply]


class Subscriber:
    """A receiver that answers by a script: `async with Subscriber(reply=...) as subscriber`.

    Attributes:
        reply: The answer to every request, or a function that returns the answer to a request. A
            test may replace it at any time.
        received: All requests, in the order of their arrival.
        connections_total: The number of connections since the start, open and closed ones.
    """

    def __init__(
        self, reply: Reply | Script | None = None, *, port: int = 0, host: str = "127.0.0.1"
    ) -> None:
        self.reply: Reply | Script = reply or Reply()
        self.received: list[Received] = []
        self.connections_total = 0
        self._host = host
        self._port = port
        self._open: set[_Connection] = set()
        self._server: asyncio.Server | None = None
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self._sink: TextIO | None = None

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _Connection(self), self._host, self._port, backlog=4096
        )
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        cast("asyncio.Server", self._server).close()
        for connection in tuple(self._open):
            connection.abort()
        await self.wait_until(lambda: not self._open)

    @property
    def port(self) -> int:
        """The port of the server."""
        return self._port

    @property
    def url(self) -> str:
        """The URL of the server, as an endpoint."""
        return f"http://{self._host}:{self._port}/"

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._open)

    @property
    def message_ids(self) -> list[str]:
        """The message id of every request, in the order of arrival."""
        return [received.message_id for received in self.received]

    def log_to(self, sink: TextIO) -> None:
        """Write a line to `sink` for each request from now on."""
        self._sink = sink

    async def wait_for(self, count: int, timeout_s: float = PATIENCE_S) -> list[Received]:
        """Wait until at least `count` requests were received, and return all of them."""
        await self.wait_until(lambda: len(self.received) >= count, timeout_s)
        return self.received

    async def wait_until(
        self, predicate: Callable[[], bool], timeout_s: float = PATIENCE_S
    ) -> None:
        """Wait until `predicate` is true.

        The predicate is called after each request, and after each closed connection.

        Raises:
            TimeoutError: The predicate is not true in time; the message says what was received.
        """
        if predicate():
            return
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((predicate, reached))
        try:
            async with asyncio.timeout(timeout_s):
                await reached
        except TimeoutError as exc:
            message = f"{len(self.received)} requests came, {self.connections} connections open"
            raise TimeoutError(message) from exc
        finally:
            self._waiting = [waiting for waiting in self._waiting if waiting[1] is not reached]

    def take(self, received: Received) -> Reply:
        """Record a request, and return its answer."""
        self.received.append(received)
        if self._sink is not None:
            line = f"{received.at_wall:.6f} {received.message_id} {received.retry_count}\n"
            self._sink.write(line)
        reply = self.reply
        answer = reply if isinstance(reply, Reply) else reply(received)
        self._changed()
        return answer

    def opened(self, connection: "_Connection") -> None:
        """Record a new connection."""
        self._open.add(connection)
        self.connections_total += 1

    def closed(self, connection: "_Connection") -> None:
        """Record that a connection is closed."""
        self._open.discard(connection)
        self._changed()

    def _changed(self) -> None:
        for predicate, reached in self._waiting:
            if not reached.done() and predicate():
                reached.set_result(None)


class _Connection(asyncio.Protocol):
    """One connection to the subscriber. Each request is answered after the delay of its answer."""

    def __init__(self, subscriber: Subscriber) -> None:
        self._subscriber = subscriber
        self._parser: httptools.HttpRequestParser | None = None
        self._transport: asyncio.Transport | None = None
        self._timers: deque[asyncio.TimerHandle] = deque()
        self._begin()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._parser = httptools.HttpRequestParser(self)
        self._subscriber.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        for timer in self._timers:
            timer.cancel()
        self._parser = None
        self._subscriber.closed(self)

    def abort(self) -> None:
        """Close the connection immediately."""
        cast("asyncio.Transport", self._transport).abort()

    def data_received(self, data: bytes) -> None:
        try:
            cast("httptools.HttpRequestParser", self._parser).feed_data(data)
        except httptools.HttpParserError:
            self.abort()

    def on_message_begin(self) -> None:
        self._begin()

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        received = Received(
            method=cast("httptools.HttpRequestParser", self._parser).get_method().decode(),
            path=self._url.decode("latin-1"),
            headers=self._headers,
            body=b"".join(self._body),
            at=time.monotonic(),
            at_wall=time.time(),
        )
        reply = self._subscriber.take(received)
        if reply.delay:
            loop = asyncio.get_running_loop()
            self._timers.append(loop.call_later(reply.delay, self._answer, reply))
            while len(self._timers) > 1 and self._timers[0].when() < loop.time():
                self._timers.popleft()
        else:
            self._answer(reply)

    def _answer(self, reply: Reply) -> None:
        transport = cast("asyncio.Transport", self._transport)
        if transport.is_closing():
            return
        transport.write(reply.encoded())
        if reply.headers.get("Connection", "").lower() == "close":
            transport.close()

    def _begin(self) -> None:
        self._url = b""
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="An HTTP subscriber for tests.")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one, and prints it")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each answer")
    parser.add_argument("--status", type=int, default=200, help="status of each answer")
    parser.add_argument("--log", type=Path, help="file that gets a line per request")
    return parser.parse_args()


async def _serve(arguments: argparse.Namespace) -> None:
    reply = Reply(status=arguments.status, delay=arguments.latency)
    async with Subscriber(reply, port=arguments.port) as subscriber:
        if arguments.log:
            # Write each line immediately, so that it is not lost if this process is killed.
            subscriber.log_to(arguments.log.open("a", buffering=1, encoding="utf-8"))
        print(subscriber.port, flush=True)  # noqa: T201 - how the starter learns the port
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(_arguments()))
