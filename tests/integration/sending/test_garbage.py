"""What fails leaves nothing for the garbage collector, which would hold up all deliveries."""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import FrameType
from typing import cast

import pytest

from tests.fakes.egress import LOOPBACK
from tests.fakes.subscriber import Reply, Subscriber
from tests.integration.sending.test_sender import PATIENT, a_message, to
from workers.delivery.sender import Sender
from workers.transport.answer import AnswerReader
from workers.transport.connection import Connection

ATTEMPTS = 20
# asyncio's own transports are in cycles, too; uvloop's, which workers run on, are not.
OURS = (BaseException, FrameType, Connection, AnswerReader)


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Nothing is collected meanwhile, but by the test."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def found_by_the_collector() -> list[object]:
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        return list(gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


@asynccontextmanager
async def nobody() -> AsyncIterator[str]:
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    yield f"http://127.0.0.1:{port}/"


class HangUp(asyncio.Protocol):
    """Streams would leave cycles of their own."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, _data: bytes) -> None:
        self._transport.close()

    def connection_lost(self, _exc: Exception | None) -> None:
        del self._transport


@asynccontextmanager
async def one_who_hangs_up() -> AsyncIterator[str]:
    loop = asyncio.get_running_loop()
    async with await loop.create_server(HangUp, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


@asynccontextmanager
async def one_who_refuses() -> AsyncIterator[str]:
    async with Subscriber(Reply(status=500)) as subscriber:
        yield subscriber.url


@pytest.mark.parametrize("peer", [nobody, one_who_hangs_up, one_who_refuses])
@pytest.mark.usefixtures("uncollected")
async def test_a_failed_attempt_leaves_no_cycle(
    peer: Callable[[], AbstractAsyncContextManager[str]],
) -> None:
    async with peer() as url, Sender(egress=LOOPBACK) as sender:
        destination = sender.destination(to(url, PATIENT))
        for _ in range(ATTEMPTS):
            await destination.attempt(a_message(), retry_count=0)
        assert not [each for each in found_by_the_collector() if isinstance(each, OURS)]
