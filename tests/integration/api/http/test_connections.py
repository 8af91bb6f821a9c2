import asyncio
import gc
import json
import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from typing import Any, ClassVar, cast

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from app.api.server.connection import BARREN_BYTES_MAX, BoundedConnection
from app.api.server.open_connections import OpenConnections
from app.config import Settings
from app.main import create_app
from tests.cases import for_each
from tests.fakes.memory_log import MemoryLog
from tests.integration.api.server import given, serving

PUBLISH = b"POST /topics/shop.orders HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = PUBLISH + b"Transfer-Encoding: chunked\r\n\r\n"
DEADLINE_S = 60


class HastyConnection(BoundedConnection):
    PATIENCE_S = 0.2


@pytest.fixture
async def hasty(
    settings: Settings, postgres_url: str, log: MemoryLog
) -> AsyncIterator[httpx.AsyncClient]:
    """The API on a server that waits for slow clients only a moment."""
    app = create_app(settings, database_url=postgres_url, log=given(log))
    async with serving(app, http=HastyConnection) as client:
        yield client


@asynccontextmanager
async def connected(
    api: httpx.AsyncClient,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(api.base_url.host, api.base_url.port)
    try:
        async with asyncio.timeout(DEADLINE_S):
            yield reader, writer
    finally:
        writer.close()


async def until_refused(writer: asyncio.StreamWriter, drop: bytes) -> int:
    """How many bytes went out in drops before the server had enough."""
    sent = 0
    try:
        while True:
            writer.write(drop)
            await writer.drain()
            sent += len(drop)
    except OSError:
        return sent


@for_each("sent", [b"", PUBLISH, PUBLISH + b"Content-Length: 2\r\n\r\n{}" + PUBLISH])
async def test_a_client_that_never_finishes_a_head_is_let_go(
    hasty: httpx.AsyncClient, sent: bytes
) -> None:
    async with connected(hasty) as (reader, writer):
        writer.write(sent)
        assert (await reader.read()).count(b"HTTP/1.1 ") == sent.count(b"{}")


async def test_a_client_that_drips_after_its_answer_is_let_go(hasty: httpx.AsyncClient) -> None:
    async with connected(hasty) as (reader, writer):
        writer.write(CHUNKED.replace(b"shop.orders", b"no.such"))
        assert b" 404 " in await reader.readline()
        assert await until_refused(writer, b"1\r\nx\r\n")


@pytest.mark.usefixtures("topic")
@for_each(
    ("head", "drop"),
    [
        (PUBLISH + b"X-Long: ", b"x" * 1024),
        (PUBLISH, b"X-Many: 1\r\n" * 100),
        (b"GET /", b"x" * 1024),
        (CHUNKED + b"1\r\nx\r\n0\r\n", b"X-Trailer: 1\r\n" * 100),
    ],
)
async def test_a_head_without_end_is_refused(
    api: httpx.AsyncClient, head: bytes, drop: bytes
) -> None:
    async with connected(api) as (reader, writer):
        writer.write(head)
        for _ in range(10 * BARREN_BYTES_MAX // len(drop)):
            writer.write(drop)
        assert b" 400 " in await reader.readline()


NO_BODY = (b"content-length", b"0")
PING = b"GET /status/ping HTTP/1.1\r\nHost: localhost\r\n\r\n"


class CountedConnection(BoundedConnection):
    """Notes how many requests waited at a time at most."""

    waiting_max: ClassVar[int] = 0

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        type(self).waiting_max = max(self.waiting_max, len(self.pipeline))


async def answers(reader: asyncio.StreamReader, count: int) -> list[bytes]:
    """The statuses of so many answers."""
    statuses: list[bytes] = []
    while len(statuses) < count:
        line = await reader.readline()
        assert line, statuses
        # It may follow the body of the answer before, which ends no line.
        _, begins, rest = line.partition(b"HTTP/1.1 ")
        if begins:
            statuses.append(rest.split()[0])
    return statuses


async def test_of_many_requests_sent_ahead_only_a_few_are_looked_at(
    settings: Settings, postgres_url: str, log: MemoryLog
) -> None:
    app = create_app(settings, database_url=postgres_url, log=given(log))
    async with (
        serving(app, http=CountedConnection) as client,
        connected(client) as (reader, writer),
    ):
        writer.write(PING * 1_000)
        assert await answers(reader, 1_000) == [b"200"] * 1_000
        # And what comes afterwards is read as ever.
        writer.write(PING)
        assert await answers(reader, 1) == [b"200"]
    assert 0 < CountedConnection.waiting_max <= 4096 // len(PING) + 1


async def late(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that takes some turns of the loop before it asks for the body, and after."""
    assert scope["type"] == "http"  # it has nothing to start or to end
    await asyncio.to_thread(int)
    await receive()
    await asyncio.to_thread(int)
    await send({"type": "http.response.start", "status": 200, "headers": [NO_BODY]})
    await send({"type": "http.response.body"})


class MeasuredConnection(BoundedConnection):
    """Notes how much was unread at most."""

    unread_max: ClassVar[int] = 0

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        type(self).unread_max = max(self.unread_max, len(self._unread))


async def test_no_more_is_read_while_something_waits_though_an_application_asks_for_its_body() -> (
    None
):
    async with (
        serving(late, http=MeasuredConnection) as client,
        connected(client) as (reader, writer),
    ):
        writer.write((PUBLISH + b"Content-Length: 1\r\n\r\n1") * 60_000)
        assert await answers(reader, 200) == [b"200"] * 200
    # What asyncio takes in at once.
    assert 0 < MeasuredConnection.unread_max <= 256 * 1024


async def test_a_head_of_which_the_rest_waits_to_be_looked_at_is_not_late() -> None:
    slow = asyncio.Event()

    async def held(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == "/slow":
            asyncio.get_running_loop().call_later(4 * HastyConnection.PATIENCE_S, slow.set)
            await slow.wait()
        await late(scope, receive, send)

    async with (
        serving(held, http=HastyConnection) as client,
        connected(client) as (reader, writer),
    ):
        writer.write(PING.replace(b"/status/ping", b"/slow") + PING * 1_000)
        assert await answers(reader, 1_001) == [b"200"] * 1_001


@pytest.mark.usefixtures("topic")
async def test_large_bodies_and_small_ones_may_be_sent_ahead_in_any_pieces(
    api: httpx.AsyncClient, log: MemoryLog
) -> None:
    body = json.dumps(["x" * 1_000] * 300).encode()
    head = (
        b"POST /topics/shop.orders/batch HTTP/1.1\r\nHost: [::1]\r\nContent-Type: application/json"
    )
    batch = head + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    small = PUBLISH + b"Content-Length: 1\r\n\r\n1"
    sent = (batch + small * 50 + PING) * 2
    for piece in (len(sent), 70_001, 4_097):
        async with connected(api) as (reader, writer):
            for at in range(0, len(sent), piece):
                writer.write(sent[at : at + piece])
                await writer.drain()
            assert await answers(reader, 104) == ([b"201"] * 51 + [b"200"]) * 2
    assert len(log.records("shop.orders")) == 3 * 2 * 350


@pytest.mark.usefixtures("topic")
async def test_many_small_chunks_are_a_body_like_any_other(
    api: httpx.AsyncClient, log: MemoryLog
) -> None:
    async with connected(api) as (reader, writer):
        writer.write(CHUNKED + b"1;" + b"e" * 100 + b"\r\n1\r\n")
        for _ in range(999):
            writer.write(b"1;" + b"e" * 100 + b"\r\n \r\n")
        writer.write(b"0\r\n\r\n")
        assert b" 201 " in await reader.readline()
    assert [record.value for record in log.records("shop.orders")] == [b"1".ljust(1000)]


@pytest.mark.parametrize("sent", [b"", PING], ids=["that ask nothing", "that ask once"])
async def test_many_connections_take_none_from_a_running_publisher(
    settings: Settings, postgres_url: str, log: MemoryLog, *, sent: bytes
) -> None:
    app = create_app(settings, database_url=postgres_url, log=given(log))
    bounded = cast("type[BoundedConnection]", partial(BoundedConnection, among=OpenConnections(10)))
    async with serving(app, http=bounded) as client, AsyncExitStack() as stack:
        (await client.post("/topics", json={"name": "shop.orders"})).raise_for_status()
        reader, writer = await stack.enter_async_context(connected(client))
        for _ in range(50):
            # The publisher is heard between any two of them, on the connection that it has.
            writer.write(PUBLISH + b"Content-Length: 1\r\n\r\n1")
            assert await answers(reader, 1) == [b"201"]
            theirs, there = await stack.enter_async_context(connected(client))
            there.write(sent)
            if sent:
                assert await answers(theirs, 1) == [b"200"]
    assert len(log.records("shop.orders")) == 50


class WatchedConnection(BoundedConnection):
    """Sets `freed` when the connection's object is freed."""

    freed: ClassVar[asyncio.Event]

    def __init__(self, *given: Any, **named: Any) -> None:  # noqa: ANN401 - passed on
        super().__init__(*given, **named)
        weakref.finalize(self, self.freed.set)


@contextmanager
def collector_stopped() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@for_each(
    "sent",
    [
        b"",
        b"GET /topics HTTP/1.1\r\nHost: localhost\r\n\r\n",
        PUBLISH + b"Content-Length: 2\r\n\r\n{}",
        PUBLISH + b"Content-Length: 2\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
async def test_a_closed_connection_is_freed_without_the_garbage_collector(
    settings: Settings, postgres_url: str, log: MemoryLog, sent: bytes
) -> None:
    freed = WatchedConnection.freed = asyncio.Event()
    app = create_app(settings, database_url=postgres_url, log=given(log))
    async with serving(app, http=WatchedConnection) as api:
        with collector_stopped():
            async with connected(api) as (reader, writer):
                writer.write(sent)
                writer.write_eof()
                await reader.read()
            async with asyncio.timeout(DEADLINE_S):
                await freed.wait()
