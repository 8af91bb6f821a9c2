"""Test messages: sent as deliveries are, and told all about."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest

from app.domain.catalogue.batching import BatchFormat, DeliveryType
from app.domain.catalogue.headers import Header
from app.domain.catalogue.subscription import DeliveryPolicy, Subscription
from app.domain.network.egress import EgressPolicy
from app.domain.runtime.ping import Pong
from tests.fakes.authority import Authority
from tests.fakes.egress import LOOPBACK
from tests.fakes.hostile import Hostile, hangs, resets, says
from tests.fakes.http2_server import hypercorn
from tests.fakes.oauth import POLICY, Login
from tests.fakes.subscriber import Reply, Subscriber
from tests.integration.conftest import Wire
from workers.delivery.pinger import Pinger
from workers.delivery.sender import Sender

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Scope]]
Send = Callable[[Scope], Awaitable[None]]


def to(endpoint: str, *, timeout_ms: int = 60_000) -> Subscription:
    policy = DeliveryPolicy(request_timeout=timedelta(milliseconds=timeout_ms))
    return Subscription(id="s-1", topic="g.t", name="s", endpoint=endpoint, policy=policy)


async def ping(subscription: Subscription, *, egress: EgressPolicy = LOOPBACK) -> Pong:
    async with Sender(egress=egress) as sender:
        pong = await Pinger(sender, worker="w1").ping(subscription)
        assert sender.transport.connections <= sender.transport.idle_connections
    return pong


async def until_told(sender: Sender, subscription: Subscription, *, not_yet: str) -> Pong:
    """Ping until there is another reason than this one, which a busy machine gives."""
    pinger = Pinger(sender, worker="w1")
    while (pong := await pinger.ping(subscription)).reason.startswith(not_yet):
        pass
    return pong


async def test_a_ping_tells_how_it_was_answered_and_on_what_way(wire: Wire) -> None:
    created = b"HTTP/1.1 201 Created\r\nServer: me\r\nX-A: 1\r\nContent-Length: 0\r\n\r\n"
    async with (
        Hostile(says(created), tls=wire.server) as receiver,
        Sender(egress=LOOPBACK, ca_file=wire.ca_file) as sender,
    ):
        pong = await Pinger(sender, worker="w1").ping(to(receiver.url))
        [request] = receiver.requests
        address = urlsplit(receiver.url).netloc
    assert (pong.delivered, pong.status, pong.reason) == (True, 201, "")
    assert {("Server", "me"), ("X-A", "1")} <= set(pong.headers)
    assert (pong.address, pong.protocol, pong.worker) == (address, "HTTP/1.1", "w1")
    assert pong.seconds > 0
    if wire.server is None:
        assert pong.tls is None
    else:
        assert pong.tls is not None
        assert pong.tls.version.startswith("TLSv1.")
        assert pong.tls.cipher
    head, _, body = request.partition(b"\r\n\r\n")
    assert f"Hermes-Message-Id: {pong.message_id}\r\n".encode() in head
    assert b"Angelia-Ping: true" in head
    said = orjson.loads(body)
    assert (said["ping"], said["topic"], said["subscription"]) == (True, "g.t", "s")


async def test_a_ping_has_what_deliveries_have() -> None:
    async with (
        Login() as login,
        Subscriber(login.guarded()) as subscriber,
        Sender(egress=LOOPBACK) as sender,
    ):
        asking = replace(
            to(subscriber.url),
            oauth=POLICY,
            oauth_provider=login.provider(),
            headers=(Header(name="X-Api-Key", value="k"),),
            identity_headers=True,
        )
        pong = await until_told(sender, asking, not_yet="No access token")
        [received] = subscriber.received
    assert pong.delivered
    assert received.headers["authorization"] == "Bearer token-1"
    assert received.headers["x-api-key"] == "k"
    assert received.headers["hermes-subscription-name"] == "s"


async def test_a_ping_goes_by_http2_where_deliveries_do_and_has_its_token(
    authority: Authority, tmp_path: Path
) -> None:
    tokens: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return
        await receive()
        tokens.append(dict(scope["headers"])[b"authorization"].decode())
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    chain, key = authority.files(tmp_path, "127.0.0.1")
    async with (
        Login() as login,
        hypercorn(app, chain, key) as url,
        Sender(egress=LOOPBACK, ca_file=authority.ca_file) as sender,
    ):
        wanted = replace(to(url), http2=True, oauth=POLICY, oauth_provider=login.provider())
        pong = await until_told(sender, wanted, not_yet="No access token")
    assert (pong.status, pong.protocol, pong.reason) == (204, "HTTP/2", "")
    assert tokens == ["Bearer token-1"]


async def test_a_ping_is_a_batch_where_deliveries_are() -> None:
    async with Subscriber() as subscriber:
        batches = replace(
            to(subscriber.url), delivery_type=DeliveryType.BATCH, batch_format=BatchFormat.PLAIN
        )
        pong = await ping(batches)
        [received] = subscriber.received
    assert pong.delivered
    assert received.headers["hermes-batch-id"] == pong.message_id
    assert [each["ping"] for each in orjson.loads(received.body)] == [True]


@pytest.mark.parametrize("status", [301, 404, 503])
async def test_an_answer_that_is_no_delivery_says_why(status: int) -> None:
    async with Subscriber(Reply(status=status)) as subscriber:
        pong = await ping(to(subscriber.url))
        assert len(subscriber.received) == 1
    assert (pong.delivered, pong.status) == (False, status)
    assert pong.reason == f"Message sending failed with status code:{status}"
    assert pong.address


async def test_no_answer_is_told_in_time() -> None:
    async with Hostile(hangs) as hostile, Sender(egress=LOOPBACK) as sender:
        hasty = to(hostile.url, timeout_ms=150)
        pong = await until_told(sender, hasty, not_yet="Could not connect")
    assert (pong.delivered, pong.status) == (False, None)
    assert pong.reason == "No complete answer within 150 ms"
    assert pong.address
    assert pong.seconds > 0.1


async def test_a_broken_connection_is_told() -> None:
    async with Hostile(resets) as hostile:
        pong = await ping(to(hostile.url))
    assert "Connection error" in pong.reason


async def test_nothing_is_sent_to_an_address_that_may_not_be_dialled() -> None:
    async with Subscriber() as subscriber:
        pong = await ping(to(subscriber.url), egress=EgressPolicy())
        assert subscriber.received == []
    assert (pong.delivered, pong.address) == (False, "")
    assert "this machine" in pong.reason


async def test_what_is_locked_is_not_sent() -> None:
    async with Subscriber() as subscriber:
        pong = await ping(replace(to(subscriber.url), locked="a key is missing"))
        assert subscriber.received == []
    assert (pong.delivered, pong.reason) == (False, "a key is missing")


async def test_an_endpoint_that_cannot_be_used_is_told() -> None:
    pong = await ping(to("http://h.test/{a}"))
    assert not pong.delivered
    assert "template cannot be filled" in pong.reason
