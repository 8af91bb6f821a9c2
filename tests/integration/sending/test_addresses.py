"""Where a request went, for whoever wants to know: also by a connection that was open before."""

import asyncio
from collections.abc import Awaitable, Callable

import httpx

from tests.fakes.authority import Authority
from tests.fakes.egress import LOOPBACK
from tests.fakes.hostile import Hostile
from tests.fakes.http2_server import answering, scripted
from tests.fakes.subscriber import Reply, Subscriber
from workers.transport.dialer import ConnectionOrigin
from workers.transport.limits import TransportLimits
from workers.transport.tls import Credentials
from workers.transport.transport import DeliveryTransport
from workers.transport.used_connection import USED_CONNECTION, UsedConnection
from workers.transport.wire import request_start, whole_request

Send = Callable[[], Awaitable[object]]


async def watched(send: Send) -> UsedConnection:
    """What is known of the connection that `send` goes by."""
    used_connection = UsedConnection()

    async def sent() -> None:
        USED_CONNECTION.set(used_connection)
        await send()

    # In a context of its own, as an attempt is.
    await asyncio.create_task(sent())
    return used_connection


def post(transport: DeliveryTransport, url: str, *, http2: bool = False) -> Send:
    target = httpx.URL(url)
    start = request_start(b"POST", target.raw_path, [(b"Host", target.netloc)])
    payload = whole_request(start, [], b"{}")
    origin = ConnectionOrigin.of(target, Credentials(http2=http2))
    return lambda: transport.exchange(origin, payload, total_s=60.0)


async def test_a_connection_that_was_open_is_told_from_one_that_was_opened() -> None:
    transport = DeliveryTransport(egress=LOOPBACK)
    async with Subscriber() as subscriber:
        found = [await watched(post(transport, subscriber.url)) for _ in range(3)]
        await transport.aclose()
    assert {each.address for each in found} == {f"127.0.0.1:{subscriber.port}"}
    assert [each.opened_at is not None for each in found] == [True, False, False]


async def test_who_waited_for_a_connection_to_become_free_knows_where_it_leads() -> None:
    limits = TransportLimits(connections_max=1)
    transport = DeliveryTransport(egress=LOOPBACK, limits=limits)
    async with Subscriber(Reply(delay=0.002)) as subscriber:
        sent = (watched(post(transport, subscriber.url)) for _ in range(5))
        found = await asyncio.gather(*sent)
        await transport.aclose()
    assert {each.address for each in found} == {f"127.0.0.1:{subscriber.port}"}
    assert [each.opened_at is not None for each in found].count(True) == 1


async def test_by_http2_too(authority: Authority) -> None:
    context = authority.server("127.0.0.1")
    context.set_alpn_protocols(["h2"])
    transport = DeliveryTransport(egress=LOOPBACK, ca_file=authority.ca_file)
    async with Hostile(scripted(answering), reading=False, tls=context) as server:
        found = [await watched(post(transport, server.url, http2=True)) for _ in range(3)]
        where = httpx.URL(server.url).netloc.decode()
        await transport.aclose()
    assert {each.address for each in found} == {where}
    assert [each.opened_at is not None for each in found] == [True, False, False]
