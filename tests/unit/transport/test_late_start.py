"""A request that had to wait for its connection is asked again whether it may be sent."""

import asyncio
import gc
import weakref
from contextvars import copy_context

import httpx
import pytest
from h2.events import RequestReceived

from tests.fakes.http2_client import Tls, a_server
from tests.fakes.sockets import Unread
from tests.unit.transport.test_spoilt_answers import OK, REQUEST, Line, Sockets
from workers.transport.deadline_timer import DeadlineTimer
from workers.transport.dialer import ConnectionOrigin
from workers.transport.http2_pool import Choices, Http2Pool
from workers.transport.late_start import LateStartError, set_may_start, take_may_start
from workers.transport.limits import TransportLimits


class Permit:
    """Says whether a request may start, and counts how often it was asked."""

    def __init__(self, *, allows: bool) -> None:
        self.allows = allows
        self.asked = 0

    def __call__(self) -> bool:
        self.asked += 1
        return self.allows


async def test_a_request_that_may_not_start_any_more_is_not_written_and_leaves_its_connection() -> (
    None
):
    line = Line()
    late = await line.post(Permit(allows=False))
    with pytest.raises(LateStartError):
        await late
    assert line.sockets.socket.written == b""
    assert line.pool.idle == 1
    again = await line.post(Permit(allows=False))
    assert line.sockets.socket.written == REQUEST
    line.say(OK, ())
    await line.turns()
    assert (await again).status == 200
    assert line.sockets.dialled == 1


async def test_a_request_on_an_open_connection_is_not_asked() -> None:
    line, permit = Line(), Permit(allows=True)
    for _ in range(2):
        sent = await line.post(permit)
        line.say(OK, ())
        await sent
    assert permit.asked == 1


async def test_a_connection_that_becomes_free_goes_to_the_first_request_that_may_start() -> None:
    line, allowed = Line(), Permit(allows=True)
    first = await line.post(allowed)
    late = await line.post(Permit(allows=False))
    following = await line.post(allowed)
    line.say(OK, ())
    await line.turns()
    assert (await first).status == 200
    with pytest.raises(LateStartError):
        await late
    assert allowed.asked == 2
    line.say(OK, ())
    await line.turns()
    assert (await following).status == 200


async def test_an_idle_connection_that_was_never_used_is_watched() -> None:
    line = Line()
    late = await line.post(Permit(allows=False))
    with pytest.raises(LateStartError):
        await late
    assert len(line.deadline_timer) == 1
    line.end(None)
    await asyncio.sleep(0)
    assert (len(line.pool), len(line.deadline_timer)) == (0, 0)


class Http2Line:
    """A pool of one HTTP/2 connection, whose other side is played here."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.deadline_timer = DeadlineTimer(self.loop)
        self.sockets = Sockets()
        self.sockets.socket = Unread({"ssl_object": Tls()})
        self.server = a_server()
        self.pool = Http2Pool(
            ConnectionOrigin("https", "h", 443),
            dialer=self.sockets,
            deadline_timer=self.deadline_timer,
            limits=TransportLimits(connections_max=1),
            choices=Choices(),
            on_empty=lambda _: None,
        )

    async def post(self, permit: Permit) -> int:
        sent = asyncio.ensure_future(self.pool.send(REQUEST, self.loop.time() + 1000, permit))
        for _ in range(6):
            await asyncio.sleep(0)
        if not sent.done():
            self.answer()
        return (await sent).status

    def answer(self) -> None:
        written, self.sockets.socket.written = self.sockets.socket.written, b""
        for event in self.server.receive_data(written):
            if isinstance(event, RequestReceived):
                self.server.send_headers(event.stream_id, [(":status", "204")], end_stream=True)
        self.sockets.connection.data_received(self.server.data_to_send())


async def test_by_http2_a_request_that_may_not_start_any_more_leaves_its_connection() -> None:
    line, denied = Http2Line(), Permit(allows=False)
    with pytest.raises(LateStartError):
        await line.post(denied)
    assert (denied.asked, line.pool.idle) == (1, 1)
    # The connection is closed when its idle time is over.
    assert len(line.deadline_timer) == 1
    # It is open now, so the next request is not asked.
    assert await line.post(denied) == 204
    assert (denied.asked, line.sockets.dialled) == (1, 1)


async def test_a_connection_keeps_nothing_of_the_request_that_opened_it() -> None:
    permit = Permit(allows=True)
    kept = weakref.ref(permit)
    set_may_start(permit)
    assert take_may_start() is permit
    connection = copy_context()
    del permit
    gc.collect()
    assert kept() is None
    assert connection.run(take_may_start) is None


def test_what_was_not_sent_is_an_error_of_the_transport() -> None:
    assert isinstance(LateStartError(), httpx.TransportError)
