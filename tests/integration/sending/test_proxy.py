"""The egress proxy: what it is asked for, and what is said when it fails."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from ipaddress import ip_address, ip_network

import httpx
import pytest
from structlog.testing import capture_logs

from app.domain.catalogue.subscription import DeliveryPolicy, Subscription
from app.domain.delivery import Delivered, Discarded, Outcome, Retry
from app.domain.message import Message, Partition, Record
from app.domain.network.egress import EgressPolicy
from app.domain.network.egress_proxy import EgressProxy
from tests.fakes.authority import Authority
from tests.fakes.egress import LOOPBACK
from tests.fakes.hostile import Hostile, keeps_alive, never_accepting
from tests.fakes.proxy import ESTABLISHED, Proxy
from tests.fakes.subscriber import Subscriber
from tests.integration.conftest import Wire
from workers.delivery.sender import Sender
from workers.transport.tunneler import Tunneler

PATIENT = DeliveryPolicy(request_timeout=timedelta(seconds=60))
SHORT = DeliveryPolicy(request_timeout=timedelta(milliseconds=150))
# The proxy is to be reached within it.
LONGER = DeliveryPolicy(request_timeout=timedelta(milliseconds=1_500))
IN_THE_CLEAR = Wire()
MESSAGE = Message(Record(7, 1, None, b"{}", [(b"id", b"m-1")]), Partition("g.t", 0))


def at(proxy: Proxy, **more: str) -> EgressProxy:
    return EgressProxy(host="127.0.0.1", port=proxy.port, direct=(), **more)


@asynccontextmanager
async def a_sender(
    proxy: EgressProxy, wire: Wire = IN_THE_CLEAR, egress: EgressPolicy = LOOPBACK
) -> AsyncIterator[Sender]:
    async with Sender(egress=egress, ca_file=wire.ca_file, proxy=proxy) as sender:
        yield sender
        assert sender.transport.connections == sender.transport.idle_connections
    assert sender.transport.connections == 0


async def post(sender: Sender, endpoint: str, policy: DeliveryPolicy = PATIENT) -> Outcome:
    subscription = Subscription(id="s", topic="g.t", name="s", endpoint=endpoint, policy=policy)
    return await sender.destination(subscription).attempt(MESSAGE, retry_count=0)


async def test_requests_go_through_a_tunnel_that_is_kept(wire: Wire) -> None:
    async with (
        Hostile(keeps_alive(), tls=wire.server) as server,
        Proxy() as proxy,
        a_sender(at(proxy), wire) as sender,
    ):
        for _ in range(3):
            assert await post(sender, server.url) == Delivered(status=200)
        assert server.requests_per_connection == [3]
        assert all(request.startswith(b"POST /hook HTTP/1.1\r\n") for request in server.requests)
        target = server.url.split("/")[2]
        assert proxy.heads == [f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n"]


async def test_the_proxy_is_asked_for_the_address_and_the_host_shows_its_name(
    authority: Authority,
) -> None:
    wire = Wire(authority.server("localhost"), authority.ca_file)
    async with (
        Hostile(keeps_alive(), tls=wire.server) as server,
        Proxy() as proxy,
        a_sender(at(proxy), wire) as sender,
    ):
        port = int(server.url.split(":")[2].split("/")[0])
        assert await post(sender, f"https://localhost:{port}/") == Delivered(status=200)
        assert proxy.targets[-1] == f"127.0.0.1:{port}"
        assert not any("localhost" in target for target in proxy.targets)


async def test_an_address_that_is_refused_is_not_asked_for() -> None:
    async with Proxy() as proxy, a_sender(at(proxy), egress=EgressPolicy()) as sender:
        outcome = await post(sender, "http://localhost:8080/")
        assert isinstance(outcome, Discarded)
        assert "this machine" in outcome.reason
        assert proxy.heads == []


async def test_direct_networks_need_no_proxy() -> None:
    async with Subscriber() as subscriber, Proxy() as proxy:
        here = (ip_network("127.0.0.0/8"),)
        direct = EgressProxy(host="127.0.0.1", port=proxy.port, direct=here)
        async with a_sender(direct) as sender:
            assert await post(sender, subscriber.url) == Delivered(status=200)
        assert proxy.heads == []


async def test_the_proxy_is_shown_our_credentials_and_the_subscriber_is_not() -> None:
    async with (
        Subscriber() as subscriber,
        Proxy() as proxy,
        a_sender(at(proxy, user="joe", password="hüsh")) as sender,
    ):
        assert await post(sender, subscriber.url) == Delivered(status=200)
        assert "\r\nProxy-Authorization: Basic am9lOmjDvHNo\r\n" in proxy.heads[0]
        assert "proxy-authorization" not in subscriber.received[0].headers


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (
            b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n\r\n",
            "The egress proxy failed: it does not accept our credentials (status 407)",
        ),
        (
            b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno",
            "The egress proxy failed: it refuses to connect to 127.0.0.1:{port} (status 403)",
        ),
        (
            b"HTTP/1.1 302 Found\r\n\r\n",
            "The egress proxy failed: it refuses to connect to 127.0.0.1:{port} (status 302)",
        ),
        (
            b"HTTP/1.1 502 Bad Gateway\r\n\r\n",
            "Could not connect: the egress proxy cannot connect to 127.0.0.1:{port} (status 502)",
        ),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "The egress proxy failed: its answer is not HTTP"),
        (b"\x00\r\n\r\n", "The egress proxy failed: its answer is not HTTP"),
        (b"HTTP/1.1 200\n\n", "The egress proxy failed: it closed the connection instead of an"),
        (b"", "The egress proxy failed: it closed the connection instead of an answer"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 20_000, "The egress proxy failed: its answer has no"),
        (
            b"HTTP/1.1 100 Continue\r\n\r\n" * 2_000,
            "The egress proxy failed: its answer has no end",
        ),
        (
            ESTABLISHED + b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            "The egress proxy failed: it said more than its answer",
        ),
    ],
)
async def test_a_proxy_that_opens_no_tunnel_is_named(answer: bytes, reason: str) -> None:
    async with (
        Subscriber() as subscriber,
        Proxy(lambda _: answer) as proxy,
        a_sender(at(proxy)) as sender,
    ):
        outcome = await post(sender, subscriber.url)
        assert isinstance(outcome, Retry)
        assert outcome.reason.startswith(reason.format(port=subscriber.port))
        assert not outcome.timed_out
        assert subscriber.received == []
        await proxy.left()


async def test_interim_answers_of_a_proxy_are_passed_over(wire: Wire) -> None:
    async with (
        Hostile(keeps_alive(), tls=wire.server) as server,
        Proxy(lambda _: b"HTTP/1.1 103 Hints\r\nA: b\r\n\r\n" + ESTABLISHED) as proxy,
        a_sender(at(proxy), wire) as sender,
    ):
        assert await post(sender, server.url) == Delivered(status=200)


async def test_a_proxy_that_hangs_costs_a_request_its_time_and_no_more() -> None:
    async with (
        Subscriber() as subscriber,
        Proxy(lambda _: None) as proxy,
        a_sender(at(proxy)) as sender,
    ):
        outcomes = await asyncio.gather(*(post(sender, subscriber.url, LONGER) for _ in range(20)))
        reason = "Could not connect through the egress proxy within 1500 ms"
        assert {outcome.reason for outcome in outcomes if isinstance(outcome, Retry)} == {reason}
        assert all(isinstance(outcome, Retry) and outcome.timed_out for outcome in outcomes)
        await proxy.left()


async def test_a_proxy_that_takes_up_no_connection_is_named() -> None:
    async with never_accepting() as url:
        port = int(url.split(":")[2].split("/")[0])
        async with a_sender(EgressProxy(host="127.0.0.1", port=port, direct=())) as sender:
            outcome = await post(sender, "http://127.0.0.1:8080/", SHORT)
            assert isinstance(outcome, Retry)
            assert outcome.reason == "The egress proxy failed: it was not reached in time"


async def test_a_proxy_that_is_down_is_named_to_owners_and_told_to_operators_once() -> None:
    async with Proxy() as proxy:
        gone = at(proxy)
    with capture_logs() as logs:
        async with a_sender(gone) as sender:
            for _ in range(3):
                outcome = await post(sender, "http://127.0.0.1:8080/")
                assert isinstance(outcome, Retry)
                assert outcome.reason.startswith("The egress proxy failed: it cannot be reached: ")
    assert [entry["event"] for entry in logs] == ["egress_proxy_failed"]
    assert logs[0]["proxy"] == f"127.0.0.1:{gone.port}"


async def test_a_request_that_is_given_up_takes_its_tunnel_with_it() -> None:
    async with (
        Subscriber() as subscriber,
        Proxy(lambda _: None) as proxy,
        a_sender(at(proxy)) as sender,
    ):
        for turns in range(0, 40, 3):
            request = asyncio.ensure_future(post(sender, subscriber.url))
            for _ in range(turns):
                await asyncio.sleep(0)
            request.cancel()
            with pytest.raises(asyncio.CancelledError):
                await request
            assert sender.transport.connections == 0
        await proxy.left()


async def test_of_a_hosts_addresses_the_direct_ones_are_not_asked_for() -> None:
    def refuses(_target: str) -> bytes:
        return b"HTTP/1.1 504 Late\r\n\r\n"

    async with Proxy(refuses) as proxy:
        here = (ip_network("127.0.0.0/8"),)
        tunneler = Tunneler(EgressProxy(host="127.0.0.1", port=proxy.port, direct=here))
        deadline = asyncio.get_running_loop().time() + 5
        addresses = [ip_address("127.0.0.1"), ip_address("1.1.1.1")]
        with pytest.raises(httpx.ConnectError, match=r"cannot connect to 1\.1\.1\.1:80"):
            await tunneler.open(addresses, 80, deadline=deadline)
        tunneler.close()
        assert proxy.targets == ["1.1.1.1:80"]


async def test_the_next_address_of_a_host_is_asked_for_when_one_cannot_be_reached() -> None:
    def answer(target: str) -> bytes:
        return ESTABLISHED if target.startswith("127.") else b"HTTP/1.1 504 Late\r\n\r\n"

    async with Subscriber() as subscriber, Proxy(answer) as proxy:
        tunneler = Tunneler(at(proxy))
        deadline = asyncio.get_running_loop().time() + 5
        addresses = [ip_address("2001:4860::1"), ip_address("127.0.0.1")]
        opened = await tunneler.open(addresses, subscriber.port, deadline=deadline)
        opened.close()
        tunneler.close()
        assert proxy.targets == [
            f"[2001:4860::1]:{subscriber.port}",
            f"127.0.0.1:{subscriber.port}",
        ]
