"""Client certificates: shown to who asks, and what is said where they are not accepted."""

import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from structlog.testing import capture_logs

from app.domain.catalogue.client_certificate import ClientCertificate
from app.domain.catalogue.subscription import Subscription
from app.domain.delivery import Delivered
from app.domain.message import Message, Partition, Record
from tests.fakes.authority import Authority
from tests.fakes.egress import LOOPBACK
from tests.fakes.handshakes import outspoken
from tests.fakes.hostile import Hostile, Visit, keeps_alive
from tests.fakes.http2_server import answering, scripted
from workers.delivery.sender import Sender
from workers.transport.dialer import ConnectionOrigin
from workers.transport.tls import Credentials
from workers.transport.transport import DeliveryTransport
from workers.transport.wire import request_start, whole_request

REQUEST = whole_request(request_start(b"POST", b"/", [(b"Host", b"h")]), [], b"{}")
MESSAGE = Message(Record(7, 1, None, b"{}", [(b"id", b"m-1")]), Partition("g.t", 0))
VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


async def posts(
    transport: DeliveryTransport, url: str, certificate: ClientCertificate | None = None
) -> int:
    origin = ConnectionOrigin.of(httpx.URL(url), Credentials(certificate=certificate))
    return (await transport.exchange(origin, REQUEST, total_s=60)).status


async def answers_with_the_name(visit: Visit) -> None:
    shown = visit.writer.get_extra_info("peercert")
    name = dict(pair for part in shown["subject"] for pair in part)["commonName"].encode()
    answer = b"HTTP/1.1 200 OK\r\nX-Name: %b\r\nContent-Length: 0\r\n\r\n" % name
    await keeps_alive(answer)(visit)


async def test_each_client_has_connections_of_its_own(authority: Authority) -> None:
    tls = authority.server_for(authority, "127.0.0.1")
    clients = {name: authority.client(name) for name in ("joe", "ann")}
    transport = DeliveryTransport(egress=LOOPBACK, ca_file=authority.ca_file)
    async with Hostile(answers_with_the_name, tls=tls) as server:
        for name in ("joe", "ann", "joe", "ann", "joe"):
            origin = ConnectionOrigin.of(
                httpx.URL(server.url), Credentials(certificate=clients[name])
            )
            answer = await transport.exchange(origin, REQUEST, total_s=60)
            assert (b"X-Name", name.encode()) in answer.headers
        assert sorted(server.requests_per_connection) == [2, 3]
    await transport.aclose()


async def refusal(
    authority: Authority, version: ssl.TLSVersion, certificate: ClientCertificate | None
) -> str:
    tls = authority.server_for(authority, "127.0.0.1")
    tls.minimum_version = tls.maximum_version = version
    transport = DeliveryTransport(egress=LOOPBACK, ca_file=authority.ca_file)
    with outspoken(tls) as url, pytest.raises(httpx.TransportError) as caught:
        await posts(transport, url, certificate)
    await transport.aclose()
    assert transport.connections == 0
    return str(caught.value)


@pytest.mark.parametrize("version", VERSIONS)
async def test_an_expired_certificate_is_named(
    authority: Authority, version: ssl.TLSVersion
) -> None:
    yesterday = datetime.now(UTC) - timedelta(days=1)
    problem = await refusal(authority, version, authority.client("joe", expired=yesterday))
    assert problem == "TLS failed: it does not accept our certificate: expired"


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_certificate_of_another_authority_is_named(
    authority: Authority, version: ssl.TLSVersion, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path).client("joe")
    problem = await refusal(authority, version, stranger)
    assert problem == "TLS failed: it does not know the authority of our certificate"


@pytest.mark.parametrize(
    ("version", "said"),
    [
        (ssl.TLSVersion.TLSv1_2, {"TLS failed: sslv3 alert handshake failure"}),
        (ssl.TLSVersion.TLSv1_3, {"TLS failed: it asks for a client certificate"}),
    ],
)
async def test_a_server_that_asks_for_a_certificate_says_so(
    authority: Authority, version: ssl.TLSVersion, said: set[str]
) -> None:
    assert await refusal(authority, version, None) in said


async def test_a_key_that_is_not_the_certificate_s_is_named(authority: Authority) -> None:
    joe, ann = authority.client("joe"), authority.client("ann")
    mixed = replace(joe, private_key=ann.private_key)
    problem = await refusal(authority, ssl.TLSVersion.TLSv1_3, mixed)
    assert problem == "the client certificate or its key cannot be used"


@pytest.mark.parametrize("http2", [False, True])
async def test_a_subscription_shows_its_certificate_by_either_protocol(
    authority: Authority, *, http2: bool
) -> None:
    tls = authority.server_for(authority, "127.0.0.1")
    tls.set_alpn_protocols(["h2", "http/1.1"])
    act = scripted(answering) if http2 else keeps_alive()
    async with (
        Hostile(act, reading=not http2, tls=tls) as server,
        Sender(egress=LOOPBACK, ca_file=authority.ca_file) as sender,
    ):
        if not http2:
            tls.set_alpn_protocols(["http/1.1"])
        subscription = Subscription(
            id="s",
            topic="g.t",
            name="s",
            endpoint=server.url,
            client_certificate=authority.client("joe"),
            http2=http2,
        )
        for _ in range(3):
            outcome = await sender.destination(subscription).attempt(MESSAGE, retry_count=0)
            assert outcome == Delivered(status=200)
        assert server.connections_total == 1


async def test_a_worker_says_which_certificates_end_soon_once(authority: Authority) -> None:
    soon = replace(authority.client("joe"), not_after=datetime.now(UTC) + timedelta(days=3.5))
    with capture_logs() as logs:
        async with Sender(egress=LOOPBACK) as sender:
            for certificate in (authority.client("ann"), soon, soon):
                sender.destination(
                    Subscription(
                        id="s",
                        topic="g.t",
                        name="s",
                        endpoint="https://h.test/",
                        client_certificate=certificate,
                    )
                )
    assert logs == [
        {
            "event": "client_certificate_ends",
            "log_level": "warning",
            "subscription": "g.t_s",
            "problem": "expires in 3 days",
        }
    ]
