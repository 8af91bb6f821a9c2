import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

import httpx
import pytest

from tests.fakes.egress import LOOPBACK
from tests.fakes.hostile import OK, Act, Hostile, Visit, hangs, keeps_alive, resets, says
from tests.fakes.subscriber import Reply, Subscriber
from workers.transport.limits import BODY_MAX, TransportLimits
from workers.transport.transport import DeliveryTransport

# Nothing takes so long, except on a machine that is busy with other things.
PATIENCE_S = 60.0


def a_post(url: str, *, total_s: float = PATIENCE_S, body: bytes = b"{}") -> httpx.Request:
    return httpx.Request("POST", url, content=body, extensions={"timeout": {"read": total_s}})


@asynccontextmanager
async def a_transport(**limits: object) -> AsyncIterator[DeliveryTransport]:
    """A transport that must come out of the test without a connection or a waiting request."""
    transport = DeliveryTransport(egress=LOOPBACK, limits=TransportLimits(**limits))  # type: ignore[arg-type]
    try:
        yield transport
    finally:
        # It waits for no socket of which nothing more is heard.
        async with asyncio.timeout(PATIENCE_S):
            await transport.aclose()
    assert (transport.connections, transport.waiting_requests) == (0, 0)


async def post(
    transport: DeliveryTransport, url: str, *, total_s: float = PATIENCE_S
) -> httpx.Response:
    return await transport.handle_async_request(a_post(url, total_s=total_s))


async def test_works_under_a_stock_httpx_client() -> None:
    reply = Reply(status=201, headers={"X-A": "1"}, body=b'{"b":2}')
    async with (
        Subscriber(reply) as subscriber,
        httpx.AsyncClient(
            transport=DeliveryTransport(egress=LOOPBACK), timeout=PATIENCE_S
        ) as client,
    ):
        answer = await client.post(subscriber.url, json={"a": 1})
        assert (answer.status_code, answer.headers["x-a"], answer.json()) == (201, "1", {"b": 2})
        assert subscriber.received[0].body == b'{"a":1}'


async def test_a_streamed_request_body_is_sent_whole() -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield b"ab"
        yield b"cd"

    async with Subscriber() as subscriber, a_transport() as transport:
        request = httpx.Request("POST", subscriber.url, content=parts())
        await transport.handle_async_request(request)
        assert subscriber.received[0].body == b"abcd"


async def test_an_answer_says_whether_it_was_cut() -> None:
    async with a_transport() as transport:
        for size, truncated in ((BODY_MAX, False), (BODY_MAX + 1, True)):
            async with Subscriber(Reply(body=b"x" * size)) as subscriber:
                answer = await post(transport, subscriber.url)
                assert len(await answer.aread()) == BODY_MAX
                assert answer.extensions["truncated"] is truncated


async def test_a_request_has_all_the_time_until_its_deadline() -> None:
    async with Hostile(hangs) as hostile, a_transport() as transport:
        start = time.monotonic()
        with pytest.raises(httpx.ReadTimeout) as raised:
            await post(transport, hostile.url, total_s=0.5)
        assert time.monotonic() - start >= 0.495
        assert str(raised.value.request.url) == hostile.url


async def test_hundreds_of_hanging_requests_end_at_their_own_deadlines() -> None:
    async with Hostile(hangs) as hostile, a_transport() as transport:

        async def lateness(total_s: float) -> float:
            start = time.monotonic()
            with pytest.raises(httpx.TimeoutException):
                await post(transport, hostile.url, total_s=total_s)
            return time.monotonic() - start - total_s

        late = await asyncio.gather(*(lateness(0.1 + i * 0.0005) for i in range(300)))
        assert min(late) > -0.005
        await hostile.left()
        assert len(hostile.requests) <= 300
        assert transport.connections == 0


async def test_requests_beyond_the_limit_take_turns() -> None:
    async with (
        Subscriber(Reply(delay=0.002)) as subscriber,
        a_transport(connections_max=4) as transport,
    ):
        answers = await asyncio.gather(*(post(transport, subscriber.url) for _ in range(200)))
        assert {answer.status_code for answer in answers} == {200}
        assert subscriber.connections_total == 4
        assert transport.connections == transport.idle_connections == 4


async def test_a_request_waits_for_its_turn_no_longer_than_its_deadline() -> None:
    async with Hostile(hangs) as hostile, a_transport(connections_max=1) as transport:
        first = asyncio.ensure_future(post(transport, hostile.url))
        await hostile.visited(1)
        with pytest.raises(httpx.PoolTimeout):
            await post(transport, hostile.url, total_s=0.1)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        await hostile.left()
        assert len(hostile.requests) == 1


async def test_a_failed_connection_gives_its_place_to_the_next() -> None:
    async with Hostile(resets) as hostile, a_transport(connections_max=1) as transport:
        answers = await asyncio.gather(
            *(post(transport, hostile.url) for _ in range(10)), return_exceptions=True
        )
        assert {type(answer) for answer in answers} == {httpx.ReadError}
        assert len(hostile.requests) == 10


async def test_a_failed_dial_gives_its_place_to_the_next() -> None:
    async with Subscriber() as subscriber:
        url = subscriber.url
    async with a_transport(connections_max=1) as transport:
        answers = await asyncio.gather(
            *(post(transport, url) for _ in range(10)), return_exceptions=True
        )
        assert {type(answer) for answer in answers} == {httpx.ConnectError}
        assert transport.connections == 0


@pytest.mark.parametrize("goodbye", ["close", "second answer", "garbage"])
async def test_what_comes_unasked_costs_the_idle_connection(goodbye: str) -> None:
    said = asyncio.Event()

    async def act(visit: Visit) -> None:
        await visit.say(OK)
        await said.wait()
        if goodbye != "close":
            await visit.say(OK if goodbye == "second answer" else b"\x00")
            await visit.until_closed()

    async with Hostile(act) as hostile, a_transport() as transport:
        await post(transport, hostile.url)
        assert transport.idle_connections == 1
        said.set()
        await hostile.left()
        await until(lambda: transport.connections == 0)
        await post(transport, hostile.url)
        assert hostile.connections_total == 2
        assert len(hostile.requests) == 2


async def test_a_connection_that_dies_under_a_second_request_is_not_tried_again() -> None:
    async def act(visit: Visit) -> None:
        await visit.say(OK)
        await visit.request()

    async with Hostile(act) as hostile, a_transport() as transport:
        await post(transport, hostile.url)
        with pytest.raises(httpx.RemoteProtocolError, match="without an answer"):
            await post(transport, hostile.url)
        assert len(hostile.requests) == 2
        assert hostile.connections_total == 1


async def test_an_answer_before_the_whole_request_ends_the_connection() -> None:
    async def act(visit: Visit) -> None:
        await visit.say(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        await visit.until_closed()

    async with Hostile(act, reading=False) as hostile, a_transport() as transport:
        request = a_post(hostile.url, body=b"x" * (32 << 20))
        try:
            answer = await transport.handle_async_request(request)
            assert answer.status_code == 413
        except (httpx.RemoteProtocolError, httpx.ConnectError):
            pass  # it was said before a byte of the request was: unsolicited
        assert transport.connections == 0


async def test_idle_connections_expire() -> None:
    async with (
        Subscriber() as subscriber,
        a_transport(idle_expiry=timedelta(milliseconds=10)) as transport,
    ):
        await post(transport, subscriber.url)
        assert transport.connections == 1
        await subscriber.wait_until(lambda: subscriber.connections == 0)
        await until(lambda: transport.connections == 0)


async def test_an_old_connection_takes_no_more_requests() -> None:
    async with (
        Hostile(keeps_alive()) as hostile,
        a_transport(connection_age=timedelta(0), connections_max=2) as transport,
    ):
        await asyncio.gather(*(post(transport, hostile.url) for _ in range(7)))
        await post(transport, hostile.url)
        await until(lambda: transport.connections == 0)
        assert hostile.requests_per_connection == [1] * 8


async def test_the_connection_used_last_is_used_next() -> None:
    async with Hostile(keeps_alive()) as hostile, a_transport() as transport:
        await asyncio.gather(*(post(transport, hostile.url) for _ in range(3)))
        for _ in range(9):
            await post(transport, hostile.url)
        assert sorted(hostile.requests_per_connection) == [1, 1, 10]


async def test_one_cancelled_when_its_turn_has_just_come_gives_it_to_the_next() -> None:
    async with Hostile(hangs) as hostile, a_transport(connections_max=1) as transport:
        loop = asyncio.get_running_loop()
        requests = [
            asyncio.ensure_future(post(transport, hostile.url, total_s=total_s))
            for total_s in (30, 30, 2.0)
        ]
        await hostile.visited(1)
        assert transport.waiting_requests == 2
        requests[0].cancel()
        # Runs after the first has given its place to the second, and before the second knows.
        loop.call_soon(requests[1].cancel)
        answers = await asyncio.gather(*requests, return_exceptions=True)
        assert [type(answer) for answer in answers] == [
            asyncio.CancelledError,
            asyncio.CancelledError,
            httpx.ReadTimeout,
        ]
        assert hostile.connections_total == 2


@pytest.mark.parametrize("act", [hangs, says(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")])
async def test_a_cancelled_request_takes_its_connection_with_it(act: Act) -> None:
    async with Hostile(act) as hostile, a_transport() as transport:
        request = asyncio.ensure_future(post(transport, hostile.url))
        await hostile.visited(1)
        await cancelled(request)
        assert transport.connections == 0
        await hostile.left()


async def test_cancelling_at_any_step_loses_no_connection() -> None:
    async with Subscriber() as subscriber, a_transport(connections_max=3) as transport:
        for steps in range(12):
            requests = [asyncio.ensure_future(post(transport, subscriber.url)) for _ in range(8)]
            for _ in range(steps):
                await asyncio.sleep(0)
            for request in requests[::2]:
                request.cancel()
            answers = await asyncio.gather(*requests, return_exceptions=True)
            for answer in answers:
                assert isinstance(answer, httpx.Response | asyncio.CancelledError)
            assert transport.connections == transport.idle_connections <= 3
            assert transport.waiting_requests == 0
        assert (await post(transport, subscriber.url)).status_code == 200


async def test_closing_lets_a_request_in_the_air_finish() -> None:
    async with Subscriber(Reply(delay=0.05)) as subscriber:
        transport = DeliveryTransport(egress=LOOPBACK)
        request = asyncio.ensure_future(post(transport, subscriber.url))
        await subscriber.wait_for(1)
        await transport.aclose()
        assert (await request).status_code == 200
        assert transport.connections == 0
        with pytest.raises(httpx.ConnectError, match="closed"):
            await post(transport, subscriber.url)


async def test_closing_ends_what_does_not_finish_in_the_grace() -> None:
    async with Hostile(hangs) as hostile:
        limits = TransportLimits(close_grace=timedelta(milliseconds=20), connections_max=1)
        transport = DeliveryTransport(egress=LOOPBACK, limits=limits)
        requests = [asyncio.ensure_future(post(transport, hostile.url)) for _ in range(3)]
        await hostile.visited(1)
        await transport.aclose()
        answers = await asyncio.gather(*requests, return_exceptions=True)
        assert all(isinstance(answer, httpx.NetworkError) for answer in answers)
        assert transport.connections == transport.waiting_requests == 0
        await hostile.left()


async def test_origins_that_are_no_longer_used_are_forgotten() -> None:
    async with a_transport() as transport:
        for _ in range(3):
            async with Subscriber() as subscriber:
                await post(transport, subscriber.url)
            await until(lambda: transport.connections == 0)
        assert transport.origins == 0


@pytest.mark.parametrize("method", ["HEAD", "CONNECT"])
async def test_methods_with_other_rules_are_refused(method: str) -> None:
    async with a_transport() as transport:
        with pytest.raises(httpx.LocalProtocolError):
            await transport.handle_async_request(httpx.Request(method, "http://127.0.0.1:1/"))


async def test_tls_to_a_server_without_it_is_a_connect_error() -> None:
    async with Hostile(says(OK), reading=False) as hostile, a_transport() as transport:
        with pytest.raises(httpx.ConnectError):
            await post(transport, hostile.url.replace("http:", "https:"), total_s=1.0)
        assert transport.connections == 0


async def cancelled(request: "asyncio.Future[httpx.Response]") -> None:
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request


async def until(holds: Callable[[], bool]) -> None:
    """Let the loop run until `holds()`: for what happens here when the other side has closed."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110 - the loop's own steps, which no event announces
            await asyncio.sleep(0)
