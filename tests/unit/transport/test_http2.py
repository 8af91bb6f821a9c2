"""HTTP/2 from the bytes of the other side: no server, and no network."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from typing import cast

import httpx
import pytest
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.exceptions import FrameTooLargeError
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.http2_client import REQUEST, Client, a_server, conversation
from tests.fakes.http2_server import IDLE_FRAMES, frame
from tests.work import SHARE_MAX, least_share
from workers.transport.answer import RawAnswer
from workers.transport.exchange import Exchange
from workers.transport.http2_frames import FloodError, FrameBudget, GoAway, GoAways
from workers.transport.http2_stream import NotProcessedError, Stream
from workers.transport.limits import SMALL_FRAMES_MAX, SMALL_FRAMES_PER_S, UNREAD_MAX
from workers.transport.wire import request_start, whole_request

PING = b"\x00\x00\x08\x06\x00\x00\x00\x00\x00" + bytes(8)


async def test_answers_are_read_however_they_are_cut() -> None:
    said = conversation()
    for cut in range(len(said)):
        client = Client(requests=2)
        client.feed(said, [cut])
        for answer in client.end():
            assert answer == RawAnswer(200, [(b"x-a", b"1")], b"body", truncated=False)


async def test_one_that_asks_for_ever_and_reads_nothing_is_left() -> None:
    client = Client()
    client.socket.written += bytes(UNREAD_MAX)
    client.feed(PING)
    assert client.socket.closed
    (error,) = client.end()
    assert str(error) == "it asks much and reads nothing"


GO_AWAY = frame(7, (1).to_bytes(4, "big") + bytes(4))


def ending(how: str) -> bytes:
    """What ends a connection with one request, together with the request's outcome."""
    client, server = Client(), a_server()
    server.receive_data(client.socket.written)
    client.end()
    if how == "flood":
        return server.data_to_send() + PING * 2_000
    if how == "reset":
        server.reset_stream(1)
    else:
        server.send_headers(1, [(":status", "200")], end_stream=True)
    return GO_AWAY + server.data_to_send()


@pytest.mark.parametrize("how", ["answer", "reset", "flood"])
async def test_a_request_has_its_outcome_before_its_connection_is_closed(how: str) -> None:
    client = Client()
    client.feed(ending(how))
    # In the TLS of uvloop, a close inside this call would break off what follows it.
    closed_within = client.socket.closed
    assert not closed_within
    assert client.answers[0].done()
    await asyncio.sleep(0)
    assert client.socket.closed
    [outcome] = client.end()
    assert isinstance(outcome, RawAnswer if how == "answer" else httpx.RemoteProtocolError)


async def test_a_malformed_answer_is_reported() -> None:
    client, server = Client(requests=2), a_server()
    server.config.validate_outbound_headers = False
    server.config.normalize_outbound_headers = False
    server.receive_data(client.socket.written)
    server.send_headers(1, [(":status", "200"), ("X-Upper", "1")], end_stream=True)
    client.feed(server.data_to_send())
    assert client.pool.reports == ["malformed"]
    assert "uppercase header name" in str(client.end()[1])


async def test_one_that_demands_the_old_protocol_gets_it() -> None:
    client, server = Client(), a_server()
    server.receive_data(client.socket.written)
    server.reset_stream(1, ErrorCodes.HTTP_1_1_REQUIRED)
    client.feed(server.data_to_send())
    assert client.pool.reports == ["HTTP/1.1"]
    assert not client.connection.usable
    assert isinstance(client.end()[0], NotProcessedError)


FLOOD_SIZE = 1 << 20
# As they come by the network, each less than what one read brings.
PIECE = 4_000


def fed(client: Client, data: bytes) -> float:
    """The CPU seconds that it takes to read `data`, as far as it is read."""
    begun = time.process_time()
    for at in range(0, len(data), PIECE):
        client.feed(data[at : at + PIECE])
    return time.process_time() - begun


def cpu_of_usual_answers() -> float:
    """What a hundred usual answers take, and their requests."""
    begun = time.process_time()
    client, server = Client(requests=0), a_server()
    for _ in range(100):
        answered(client, server)
    return time.process_time() - begun


def answered(client: Client, server: H2Connection, more: bytes = b"") -> RawAnswer:
    """The answer to another request, of which the body ends by a part of its own."""
    answer: asyncio.Future[RawAnswer] = client.loop.create_future()
    exchange = Exchange(REQUEST, client.loop.time() + 10, answer)
    client.connection.start(exchange)
    assert isinstance(exchange.carrier, Stream)
    stream = exchange.carrier.id
    server.receive_data(client.socket.written)
    client.socket.written = b""
    server.send_headers(stream, [(":status", "200"), ("x-a", "1")])
    server.send_data(stream, b"ok")
    server.end_stream(stream)
    client.feed(server.data_to_send() + more)
    return answer.result()


def beginning() -> tuple[Client, H2Connection]:
    """A request of which the answer has begun."""
    client, server = Client(), a_server()
    server.receive_data(client.socket.written)
    server.send_headers(1, [(":status", "200")])
    client.feed(server.data_to_send())
    return client, server


@pytest.mark.parametrize("part", IDLE_FRAMES.values(), ids=IDLE_FRAMES)
async def test_a_flood_costs_less_than_two_hundred_answers_and_ends_the_connection(
    part: bytes,
) -> None:
    clients = list[Client]()

    def flood_s() -> float:
        clients.append(beginning()[0])
        return fed(clients[-1], part * (FLOOD_SIZE // len(part)))

    assert least_share(flood_s, cpu_of_usual_answers, 2) <= SHARE_MAX
    client, *others = clients
    for each in others:
        each.end()
    await asyncio.sleep(0)
    assert client.socket.closed
    (error,) = client.end()
    assert isinstance(error, httpx.RemoteProtocolError)
    assert str(error) == "a flood of HTTP/2: too many small frames"
    # GOAWAY, ENHANCE_YOUR_CALM
    assert client.socket.written.endswith(frame(7, bytes(7) + b"\x0b"))


async def test_a_busy_server_is_no_flood() -> None:
    client, server = Client(requests=0), a_server()
    beside = frame(8, b"\x00\x00\x00\x02") * 2 + frame(6, bytes(8)) + frame(6, bytes(8), flags=1)
    for _ in range(SMALL_FRAMES_MAX // 2):
        assert answered(client, server, beside).body == b"ok"
    assert not client.socket.closed
    client.end()


async def test_a_server_that_acknowledges_a_large_body_is_no_flood() -> None:
    client = Client(requests=0)
    answer: asyncio.Future[RawAnswer] = client.loop.create_future()
    payload = whole_request(request_start(b"POST", b"/", [(b"Host", b"h")]), [], bytes(200_000))
    client.connection.start(Exchange(payload, client.loop.time() + 10, answer))
    client.answers.append(answer)
    window = b"\x00\x00\x04\x08\x00\x00\x00\x00"
    grown = (160_000).to_bytes(4, "big")
    client.feed(window + b"\x00" + grown + window + b"\x01" + grown)
    client.feed(frame(8, b"\x00\x00\x00\x02") * (SMALL_FRAMES_MAX + 150))
    assert not client.socket.closed
    client.feed(frame(8, b"\x00\x00\x00\x02") * SMALL_FRAMES_MAX)
    await asyncio.sleep(0)
    assert client.socket.closed


async def test_empty_parts_are_not_kept() -> None:
    client, server = Client(requests=0), a_server()
    answer: asyncio.Future[RawAnswer] = client.loop.create_future()
    exchange = Exchange(REQUEST, client.loop.time() + 10, answer)
    client.connection.start(exchange)
    server.receive_data(client.socket.written)
    server.send_headers(1, [(":status", "200")])
    empty = IDLE_FRAMES["empty parts"] * (SMALL_FRAMES_MAX // 2)
    client.feed(server.data_to_send() + empty)
    assert isinstance(exchange.carrier, Stream)
    assert exchange.carrier.body == []
    client.end()
    assert answer.exception()


def test_small_frames_are_allowed_so_many_a_second() -> None:
    budget, now = FrameBudget(0.0), 0.0
    for _ in range(SMALL_FRAMES_MAX):
        budget.spend()
    for _ in range(100):
        now += 1.0
        budget.refill(now)
        for _ in range(SMALL_FRAMES_PER_S):
            budget.spend()
    with pytest.raises(FloodError):
        budget.spend()


async def test_what_the_other_side_does_not_take_is_not_written() -> None:
    """A window that is closed costs us no memory, and one request's does not hold up another."""
    client = Client(requests=0)
    answer: asyncio.Future[RawAnswer] = client.loop.create_future()
    body = b"x" * 1_000_000
    payload = whole_request(request_start(b"POST", b"/", [(b"Host", b"h")]), [], body)
    client.connection.start(Exchange(payload, client.loop.time() + 10, answer))
    client.answers.append(answer)
    assert 65_000 < len(client.socket.written) < 67_000
    client.connection.pause_writing()
    window = b"\x00\x00\x04\x08\x00\x00\x00\x00"
    grown = (900_000).to_bytes(4, "big")
    client.feed(window + b"\x00" + grown + window + b"\x01" + grown)
    assert len(client.socket.written) < 67_000
    client.connection.resume_writing()
    assert len(client.socket.written) > 960_000
    client.end()


async def test_a_connection_of_which_nothing_was_heard_in_all_the_time_is_left() -> None:
    for heard in (True, False):
        client, server = Client(), a_server()
        hello = server.data_to_send()
        late: asyncio.Future[RawAnswer] = client.loop.create_future()
        if not heard:
            client.feed(hello)
        exchange = Exchange(REQUEST, client.loop.time(), late)
        client.connection.start(exchange)
        if heard:
            client.feed(hello)
        assert isinstance(exchange.carrier, Stream)
        exchange.carrier.expire()
        assert isinstance(late.exception(), httpx.ReadTimeout)
        assert client.connection.usable is heard
        client.end()


@pytest.mark.parametrize("code", [ErrorCodes.REFUSED_STREAM, ErrorCodes.CANCEL])
async def test_an_answer_that_is_reset_in_the_same_breath_is_one_end(code: ErrorCodes) -> None:
    client, server = Client(), a_server()
    server.receive_data(client.socket.written)
    server.send_headers(1, [(":status", "200")])
    server.reset_stream(1, code)
    client.feed(server.data_to_send())
    (error,) = client.end()
    assert isinstance(error, httpx.RemoteProtocolError)
    assert code.name in str(error)


@given(data=st.binary(max_size=300), cuts=st.lists(st.integers(0, 300), max_size=4))
async def test_any_bytes_are_an_end(data: bytes, cuts: list[int]) -> None:
    client = Client(requests=2)
    client.feed(data, cuts)
    for end in client.end():
        assert isinstance(end, RawAnswer | httpx.TransportError)


@given(
    flips=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=6),
    drops=st.lists(st.integers(0, 10_000), max_size=3),
    cuts=st.lists(st.integers(0, 300), max_size=4),
    go_away=st.booleans(),
)
async def test_a_conversation_that_is_spoilt_anywhere_comes_to_an_end(
    flips: list[tuple[int, int]], drops: list[int], cuts: list[int], *, go_away: bool
) -> None:
    said = bytearray(conversation(go_away=go_away))
    for place, value in flips:
        said[place % len(said)] = value
    for place in drops:
        del said[place % len(said)]
    client = Client(requests=2)
    client.feed(bytes(said), cuts)
    for end in client.end():
        assert isinstance(end, RawAnswer | httpx.TransportError)


def frames(*lengths: int) -> Iterator[bytes]:
    for length in lengths:
        yield length.to_bytes(3, "big") + b"\x00\x00" + bytes(4) + b"d" * length


@given(
    before=st.lists(st.integers(0, 40), max_size=4),
    after=st.lists(st.integers(0, 40), max_size=4),
    cuts=st.lists(st.integers(0, 400), max_size=8),
)
def test_goodbyes_are_found_wherever_they_are_cut(
    before: list[int], after: list[int], cuts: list[int]
) -> None:
    go_away = b"\x00\x00\x0a\x07\x00" + bytes(4) + b"\x80\x00\x00\x05\x00\x00\x00\x02hi"
    first, last = b"".join(frames(*before)), b"".join(frames(*after))
    said = first + go_away + last
    places = sorted({0, len(said), *(cut % (len(said) + 1) for cut in cuts)})
    go_aways = GoAways(FrameBudget(0.0))
    parts = [
        part for start, end in pairwise(places) for part in go_aways.parts(said[start:end]) if part
    ]
    at = parts.index(GoAway(5, 2))
    assert b"".join(cast("list[bytes]", parts[:at])) == first
    assert b"".join(cast("list[bytes]", parts[at + 1 :])) == last


def test_a_frame_that_is_too_large_is_not_waited_for() -> None:
    with pytest.raises(FrameTooLargeError):
        list(GoAways(FrameBudget(0.0)).parts(b"HTTP/1.1 400"))
    with suppress(FrameTooLargeError):
        list(GoAways(FrameBudget(0.0)).parts(b"\x00\x40\x00" + bytes(6)))
