"""HTTP/2: the same outcomes, by few connections."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from h2.errors import ErrorCodes
from h2.exceptions import StreamClosedError

from app.domain.network.egress_proxy import EgressProxy
from tests.fakes.authority import Authority
from tests.fakes.egress import LOOPBACK
from tests.fakes.hostile import OK, Act, Hostile, Visit, hangs, keeps_alive, says
from tests.fakes.http2_server import (
    IDLE_FRAMES,
    Scripted,
    answering,
    flooding,
    hypercorn,
    scripted,
)
from tests.fakes.proxy import Proxy
from tests.integration.conftest import Wire
from tests.servers.nginx import nginx_with_http2
from workers.transport.answer import RawAnswer
from workers.transport.dialer import ConnectionOrigin
from workers.transport.limits import BODY_MAX, STREAMS_MAX, TransportLimits
from workers.transport.tls import Credentials
from workers.transport.transport import DeliveryTransport
from workers.transport.wire import request_start, whole_request

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Scope]]
Send = Callable[[Scope], Awaitable[None]]

HTTP2 = Credentials(http2=True)
LIMITS = TransportLimits(connections_max=1000)
# Nothing takes so long, except on a machine that is busy with other things.
PATIENCE_S = 60.0


@pytest.fixture
def tls(authority: Authority) -> Wire:
    context = authority.server("127.0.0.1")
    context.set_alpn_protocols(["h2"])
    return Wire(context, authority.ca_file)


@asynccontextmanager
async def a_transport(
    wire: Wire, proxy: EgressProxy | None = None, limits: TransportLimits = LIMITS
) -> AsyncIterator[DeliveryTransport]:
    """A transport that must come out of the test without a connection or a waiting request."""
    transport = DeliveryTransport(
        egress=LOOPBACK,
        ca_file=wire.ca_file,
        limits=limits,
        proxy=proxy,
    )
    try:
        yield transport
    finally:
        async with asyncio.timeout(PATIENCE_S):
            await transport.aclose()
    assert (transport.connections, transport.waiting_requests, transport.origins) == (0, 0, 0)


async def post(
    transport: DeliveryTransport, url: str, *, body: bytes = b"{}", total_s: float = PATIENCE_S
) -> RawAnswer:
    target = httpx.URL(url)
    headers = [(b"Host", target.netloc), (b"X-A", b"1")]
    payload = whole_request(request_start(b"POST", target.raw_path, headers), [], body)
    return await transport.exchange(ConnectionOrigin.of(target, HTTP2), payload, total_s=total_s)


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Says what it was asked, and by which protocol."""
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    headers = [
        (b"x-version", scope["http_version"].encode()),
        (b"x-path", scope["raw_path"]),
        *((b"got-" + name, value) for name, value in scope["headers"]),
    ]
    await send({"type": "http.response.start", "status": 201, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@pytest.mark.parametrize(("alpn", "version"), [("h2", b"2"), ("http/1.1", b"1.1")])
async def test_a_real_server_gets_the_request_by_the_protocol_it_chooses(
    authority: Authority, tmp_path: Path, alpn: str, version: bytes
) -> None:
    chain, key = authority.files(tmp_path, "127.0.0.1")
    body = b"x" * 300_000  # more than one window
    async with (
        hypercorn(echo, chain, key, alpn=alpn) as url,
        a_transport(Wire(None, authority.ca_file)) as transport,
    ):
        for _ in range(3):
            answer = await post(transport, url + "hook?a=b", body=body)
            headers = dict(answer.headers)
            assert (answer.status, headers[b"x-version"]) == (201, version)
            assert headers[b"x-path"].startswith(b"/hook")
            assert headers[b"got-x-a"] == b"1"
            assert headers[b"got-host"] == url.split("/")[2].encode()
            assert (len(answer.body), answer.truncated) == (BODY_MAX, True)
        answers = await asyncio.gather(*(post(transport, url) for _ in range(50)))
        assert {answer.body for answer in answers} == {b"{}"}


@asynccontextmanager
async def speaking(
    script: Callable[[Scripted], Awaitable[None]], tls: Wire, limits: TransportLimits = LIMITS
) -> AsyncIterator[tuple[Hostile, DeliveryTransport]]:
    async with (
        Hostile(scripted(script), reading=False, tls=tls.server) as server,
        a_transport(tls, limits=limits) as transport,
    ):
        yield server, transport


async def test_many_requests_share_a_connection(tls: Wire) -> None:
    async with speaking(answering, tls) as (server, transport):
        answers = await asyncio.gather(*(post(transport, server.url) for _ in range(STREAMS_MAX)))
        assert {answer.status for answer in answers} == {200}
        assert server.connections_total == 1
        assert transport.connections == transport.idle_connections == 1


async def test_an_old_connection_takes_no_more_requests(tls: Wire) -> None:
    limits = TransportLimits(connection_age=timedelta(0))
    async with speaking(answering, tls, limits) as (server, transport):
        for _ in range(3):
            answers = await asyncio.gather(*(post(transport, server.url) for _ in range(10)))
            assert {answer.status for answer in answers} == {200}
        assert server.connections_total >= 3


async def test_more_requests_than_one_connection_takes_get_another(tls: Wire) -> None:
    release = asyncio.Event()

    async def script(server: Scripted) -> None:
        streams = [await server.next_request() for _ in range(STREAMS_MAX // 2)]
        await release.wait()
        for stream in streams:
            server.answer(stream or 0)
        await server.flush()
        await answering(server)

    async with speaking(script, tls, TransportLimits(connections_max=2)) as (server, transport):
        requests = [
            asyncio.ensure_future(post(transport, server.url)) for _ in range(2 * STREAMS_MAX + 10)
        ]
        await server.visited(2)
        release.set()
        assert {answer.status for answer in await asyncio.gather(*requests)} == {200}
        assert server.connections_total == 2


async def test_no_more_requests_are_open_than_the_other_side_allows(tls: Wire) -> None:
    async def script(server: Scripted) -> None:
        server.http2.update_settings({3: 2})  # MAX_CONCURRENT_STREAMS
        await server.flush()
        open_at_once: set[int] = set()
        while stream := await server.next_request():
            open_at_once.add(stream)
            assert len(open_at_once) <= 2
            server.answer(stream)
            open_at_once.discard(stream)
            await server.flush()

    async with speaking(script, tls, TransportLimits(connections_max=1)) as (server, transport):
        assert (await post(transport, server.url)).status == 200
        answers = await asyncio.gather(*(post(transport, server.url) for _ in range(40)))
        assert {answer.status for answer in answers} == {200}
        assert server.connections_total == 1


async def test_a_goodbye_lets_what_was_begun_finish_and_sends_the_rest_elsewhere(
    tls: Wire,
) -> None:
    visits = 0

    async def script(server: Scripted) -> None:
        nonlocal visits
        visits += 1
        if visits > 1:
            await answering(server)
            return
        streams = [await server.next_request() for _ in range(3)]
        # GOAWAY: the last two were not looked at, the first one is answered after it.
        await server.visit.say(
            bytes((0, 0, 8, 7, 0, 0, 0, 0, 0)) + (streams[0] or 0).to_bytes(4, "big") + bytes(4)
        )
        server.answer(streams[0] or 0, 202)
        await server.flush()
        await server.visit.until_closed()

    async with speaking(script, tls) as (server, transport):
        answers = await asyncio.gather(*(post(transport, server.url) for _ in range(3)))
        assert sorted(answer.status for answer in answers) == [200, 200, 202]
        assert server.connections_total == 2


async def test_a_request_that_was_refused_unseen_is_sent_again_and_any_other_is_not(
    tls: Wire,
) -> None:
    async def refuses_once(server: Scripted) -> None:
        first = await server.next_request()
        server.http2.reset_stream(first or 0, ErrorCodes.REFUSED_STREAM)
        await server.flush()
        await answering(server)

    async with speaking(refuses_once, tls) as (server, transport):
        assert (await post(transport, server.url)).status == 200

    async with speaking(resetting(ErrorCodes.INTERNAL_ERROR), tls) as (server, transport):
        with pytest.raises(httpx.RemoteProtocolError, match="was reset: INTERNAL_ERROR"):
            await post(transport, server.url)
        assert len(server.requests) == 1


def resetting(reason: ErrorCodes) -> Callable[[Scripted], Awaitable[None]]:
    """A script that resets every request, and gives `reason`."""

    async def script(server: Scripted) -> None:
        while stream := await server.next_request():
            server.http2.reset_stream(stream, reason)
            await server.flush()

    return script


async def test_who_always_refuses_is_not_asked_for_ever(tls: Wire) -> None:
    async with speaking(resetting(ErrorCodes.REFUSED_STREAM), tls) as (server, transport):
        with pytest.raises(httpx.RemoteProtocolError, match="REFUSED_STREAM"):
            await post(transport, server.url)
        assert len(server.requests) == 3


async def test_requests_that_time_out_leave_nothing_behind(tls: Wire) -> None:
    async def silent(server: Scripted) -> None:
        while await server.next_request():
            pass

    async with speaking(silent, tls) as (server, transport):
        for _ in range(3):
            requests = (post(transport, server.url, total_s=0.15) for _ in range(150))
            answers = await asyncio.gather(*requests, return_exceptions=True)
            assert all(isinstance(answer, httpx.TimeoutException) for answer in answers)
            assert transport.connections == transport.idle_connections
            assert transport.waiting_requests == 0


async def test_a_connection_that_lives_is_kept_when_one_request_times_out(tls: Wire) -> None:
    came = asyncio.Event()

    async def answers_the_others(server: Scripted) -> None:
        server.answer(await server.next_request() or 0)
        await server.flush()
        await server.next_request()
        came.set()
        await answering(server)

    async with speaking(answers_the_others, tls) as (server, transport):
        # The handshake takes a busy machine a while, and is not what is timed.
        assert (await post(transport, server.url)).status == 200
        late = asyncio.ensure_future(post(transport, server.url, total_s=3.0))
        await came.wait()
        assert (await post(transport, server.url)).status == 200
        with pytest.raises(httpx.ReadTimeout):
            await late
        assert (await post(transport, server.url)).status == 200
        assert server.connections_total == 1


async def test_a_request_that_is_given_up_leaves_its_connection_to_the_others(tls: Wire) -> None:
    came = asyncio.Event()

    async def answers_the_others(server: Scripted) -> None:
        await server.next_request()
        came.set()
        await answering(server)

    async with speaking(answers_the_others, tls) as (server, transport):
        given_up = asyncio.ensure_future(post(transport, server.url))
        await came.wait()
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        assert (await post(transport, server.url)).status == 200
        assert server.connections_total == 1


async def test_cancelling_at_any_step_loses_nothing(tls: Wire) -> None:
    async with speaking(answering, tls, TransportLimits(connections_max=2)) as (server, transport):
        for steps in range(0, 60, 4):
            requests = [asyncio.ensure_future(post(transport, server.url)) for _ in range(8)]
            for _ in range(steps):
                await asyncio.sleep(0)
            for request in requests[::2]:
                request.cancel()
            answers = await asyncio.gather(*requests, return_exceptions=True)
            for answer in answers:
                assert isinstance(answer, RawAnswer | asyncio.CancelledError)
            assert transport.connections == transport.idle_connections <= 2
            assert transport.waiting_requests == 0


async def test_a_body_over_the_cap_is_cut_and_its_status_counts(tls: Wire) -> None:
    async def floods(server: Scripted) -> None:
        stream = await server.next_request() or 0
        server.http2.send_headers(stream, [(":status", "200")])
        with suppress(StreamClosedError):
            while window := server.http2.local_flow_control_window(stream):
                server.http2.send_data(stream, b"x" * min(window, 10_000))
                await server.flush()
                while not server.http2.local_flow_control_window(stream):
                    await server.hear()
        await answering(server)

    async with speaking(floods, tls) as (server, transport):
        answer = await post(transport, server.url)
        assert (answer.status, len(answer.body), answer.truncated) == (200, BODY_MAX, True)
        assert (await post(transport, server.url)).status == 200
        assert server.connections_total == 1


async def test_one_that_floods_is_told_so_and_left(tls: Wire) -> None:
    goodbyes: list[int | None] = []

    async def script(server: Scripted) -> None:
        try:
            await flooding(IDLE_FRAMES["pings"], 32_000)(server)
        finally:
            goodbyes.append(server.goodbye)

    async with speaking(script, tls) as (server, transport):
        with pytest.raises(httpx.RemoteProtocolError, match="a flood of HTTP/2"):
            await post(transport, server.url)
        assert transport.connections == 0
        await server.left()
    assert goodbyes == [ErrorCodes.ENHANCE_YOUR_CALM]


async def test_a_server_that_hangs_in_the_handshake_costs_everybody_their_own_time() -> None:
    async with Hostile(hangs, reading=False) as server, a_transport(Wire()) as transport:
        url = server.url.replace("http:", "https:")
        answers = await asyncio.gather(
            *(post(transport, url, total_s=0.1 + 0.01 * i) for i in range(10)),
            return_exceptions=True,
        )
        assert {type(answer) for answer in answers} == {httpx.ConnectTimeout}


async def test_a_dial_that_fails_fails_all_that_wait_for_it(tls: Wire) -> None:
    async with Hostile(says(OK), reading=False) as server:
        url = server.url.replace("http:", "https:")
        async with a_transport(tls) as transport:
            answers = await asyncio.gather(
                *(post(transport, url) for _ in range(20)), return_exceptions=True
            )
            assert {type(answer) for answer in answers} == {httpx.ConnectError}


@pytest.mark.parametrize(
    "act",
    [
        says(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        says(b"\x00" * 64),
        says(b"\x00\xff\xff\x00\x00\x00\x00\x00\x00" + b"x" * 70_000),
        says(b"\x00\x00\x08\x07\x00\x00\x00\x00\x00" + bytes(8)),
        says(close=True),
    ],
)
async def test_what_is_not_http2_is_a_protocol_error(tls: Wire, act: Act) -> None:
    async with (
        Hostile(act, reading=False, tls=tls.server) as server,
        a_transport(tls) as transport,
    ):
        answers = await asyncio.gather(
            *(post(transport, server.url) for _ in range(5)), return_exceptions=True
        )
        for answer in answers:
            assert isinstance(answer, httpx.RemoteProtocolError | httpx.NetworkError)
        await server.left()


async def test_a_malformed_answer_fails_no_other_request_of_its_host_later(tls: Wire) -> None:
    async def script(server: Scripted) -> None:
        server.http2.config.validate_outbound_headers = False
        server.http2.config.normalize_outbound_headers = False
        while stream := await server.next_request():
            name = "X-Upper" if server.requests[stream] == b"bad" else "x-lower"
            server.http2.send_headers(stream, [(":status", "200"), (name, "1")], end_stream=True)
            await server.flush()

    async with speaking(script, tls) as (server, transport):
        with pytest.raises(httpx.RemoteProtocolError, match="uppercase"):
            await post(transport, server.url, body=b"bad")
        bodies = [b"bad" if number % 3 else b"good" for number in range(30)]
        outcomes = await asyncio.gather(
            *(post(transport, server.url, body=body) for body in bodies), return_exceptions=True
        )
    well = [isinstance(outcome, RawAnswer) for outcome in outcomes]
    assert well == [body == b"good" for body in bodies]


async def test_one_that_demands_the_old_protocol_is_asked_by_it(authority: Authority) -> None:
    context = authority.server("127.0.0.1")
    context.set_alpn_protocols(["h2", "http/1.1"])

    async def either(visit: Visit) -> None:
        protocol = visit.writer.get_extra_info("ssl_object").selected_alpn_protocol()
        if protocol == "h2":
            await scripted(resetting(ErrorCodes.HTTP_1_1_REQUIRED))(visit)
        while protocol != "h2" and await visit.request():
            await visit.say(OK)

    async with (
        Hostile(either, reading=False, tls=context) as server,
        a_transport(Wire(None, authority.ca_file)) as transport,
    ):
        answers = [await post(transport, server.url) for _ in range(2)]
        assert [answer.status for answer in answers] == [200, 200]
        assert server.connections_total == 2


async def test_nginx_ends_connections_and_all_requests_get_their_answers(
    authority: Authority, tmp_path: Path
) -> None:
    chain, key = authority.files(tmp_path, "127.0.0.1")
    async with (
        nginx_with_http2(tmp_path, chain, key, requests_max=2) as url,
        a_transport(Wire(None, authority.ca_file)) as transport,
    ):
        for _ in range(6):
            async with asyncio.timeout(PATIENCE_S):
                answers = await asyncio.gather(*(post(transport, url) for _ in range(5)))
            assert {answer.status for answer in answers} == {200}


async def test_http2_goes_through_the_proxy_too(tls: Wire) -> None:
    async with (
        Proxy() as proxy,
        Hostile(scripted(answering), reading=False, tls=tls.server) as server,
    ):
        there = EgressProxy(host="127.0.0.1", port=proxy.port, direct=())
        async with a_transport(tls, there) as transport:
            for _ in range(3):
                assert (await post(transport, server.url)).status == 200
        assert len(proxy.heads) == 1


async def test_a_session_is_resumed_by_http2_too(tls: Wire) -> None:
    async def once(server: Scripted) -> None:
        server.answer(await server.next_request() or 0)
        await server.flush()

    async with speaking(once, tls) as (server, transport):
        for _ in range(3):
            assert (await post(transport, server.url)).status == 200
            await server.left()
        assert server.resumed == [False, True, True]


async def test_one_that_speaks_only_the_old_protocol_is_not_asked_each_time(
    authority: Authority,
) -> None:
    plain = authority.server("127.0.0.1")
    async with (
        Hostile(keeps_alive(), tls=plain) as server,
        a_transport(Wire(None, authority.ca_file)) as transport,
    ):
        for _ in range(5):
            answers = await asyncio.gather(*(post(transport, server.url) for _ in range(3)))
            assert {answer.status for answer in answers} == {200}
        assert sum(server.requests_per_connection) == 15
        assert server.requests_per_connection.count(0) == 1
