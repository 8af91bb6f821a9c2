"""TLS sessions: resumed with the same host, and never by another client."""

import ssl

import httpx
import pytest

from tests.fakes.authority import Authority
from tests.fakes.egress import LOOPBACK
from tests.fakes.hostile import OK, Hostile, says
from workers.transport.dialer import ConnectionOrigin
from workers.transport.tls import PLAIN, Credentials
from workers.transport.transport import DeliveryTransport
from workers.transport.wire import request_start, whole_request

REQUEST = whole_request(request_start(b"POST", b"/", [(b"Host", b"h")]), [], b"{}")
# Each request needs a connection of its own.
GOODBYE = says(OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))


async def posts(transport: DeliveryTransport, url: str, credentials: Credentials = PLAIN) -> int:
    origin = ConnectionOrigin.of(httpx.URL(url), credentials)
    return (await transport.exchange(origin, REQUEST, total_s=60)).status


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_new_connection_resumes_the_session_of_the_last_one(
    authority: Authority, version: ssl.TLSVersion
) -> None:
    tls = authority.server("127.0.0.1")
    tls.minimum_version = tls.maximum_version = version
    transport = DeliveryTransport(egress=LOOPBACK, ca_file=authority.ca_file)
    async with Hostile(GOODBYE, tls=tls) as server:
        for _ in range(4):
            assert await posts(transport, server.url) == 200
        assert server.resumed == [False, True, True, True]
    await transport.aclose()


async def test_a_host_that_has_lost_its_keys_gets_a_whole_handshake(authority: Authority) -> None:
    transport = DeliveryTransport(egress=LOOPBACK, ca_file=authority.ca_file)
    for _ in range(2):
        async with Hostile(GOODBYE, tls=authority.server("127.0.0.1")) as server:
            assert await posts(transport, server.url) == 200
            assert server.resumed == [False]
    await transport.aclose()


async def test_a_session_is_not_resumed_with_a_certificate_for_another_name(
    authority: Authority,
) -> None:
    """One server, two names: what was verified for one of them says nothing about the other."""
    tls = authority.server("127.0.0.1")
    transport = DeliveryTransport(egress=LOOPBACK, ca_file=authority.ca_file)
    async with Hostile(GOODBYE, tls=tls) as server:
        assert await posts(transport, server.url) == 200
        with pytest.raises(httpx.ConnectError, match="the certificate is not accepted"):
            await posts(transport, server.url.replace("127.0.0.1", "localhost"))
    await transport.aclose()


async def test_a_session_belongs_to_the_client_that_showed_its_certificate(
    authority: Authority,
) -> None:
    tls = authority.server_for(authority, "127.0.0.1")
    joe, ann = (Credentials(certificate=authority.client(name)) for name in ("joe", "ann"))
    transport = DeliveryTransport(egress=LOOPBACK, ca_file=authority.ca_file)
    async with Hostile(GOODBYE, tls=tls) as server:
        for client in (joe, joe, ann, ann, joe):
            assert await posts(transport, server.url, client) == 200
        assert server.resumed == [False, True, False, True, True]
        with pytest.raises(httpx.TransportError):
            await posts(transport, server.url)
    await transport.aclose()
