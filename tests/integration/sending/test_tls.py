"""TLS: who is believed, and what is said of those who are not."""

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from tests.fakes.authority import Authority
from tests.fakes.egress import LOOPBACK
from tests.fakes.hostile import OK, Hostile, says
from workers.transport.tls import FAILURE_KEPT_S, PLAIN, TlsContexts
from workers.transport.transport import DeliveryTransport

NAME = "localhost"


async def answer(tls: ssl.SSLContext, ca_file: Path | None) -> int:
    """What a server that listens with `tls` says to a request for its name."""
    transport = DeliveryTransport(egress=LOOPBACK, ca_file=ca_file)
    async with Hostile(says(OK), tls=tls) as server:
        port = httpx.URL(server.url).port
        request = httpx.Request("POST", f"https://{NAME}:{port}/", content=b"{}")
        try:
            return (await transport.handle_async_request(request)).status_code
        finally:
            await transport.aclose()
            assert transport.connections == 0


async def test_an_authority_that_is_named_is_believed(authority: Authority) -> None:
    assert await answer(authority.server(NAME), authority.ca_file) == 200


async def test_what_could_not_be_read_for_a_moment_is_read_again(
    authority: Authority, tmp_path: Path
) -> None:
    ca_file = tmp_path / "ca.pem"
    contexts = TlsContexts(ca_file)
    for _ in range(2):  # not by each of thousands of requests
        with pytest.raises(FileNotFoundError):
            await contexts.of(PLAIN)
    ca_file.write_bytes(authority.ca_file.read_bytes())
    with pytest.raises(FileNotFoundError):
        await contexts.of(PLAIN)
    later = asyncio.Event()
    asyncio.get_running_loop().call_later(FAILURE_KEPT_S + 0.1, later.set)
    await later.wait()
    context = await contexts.of(PLAIN)
    assert await contexts.of(PLAIN) is context
    contexts.close()


async def refusal(tls: ssl.SSLContext, ca_file: Path | None) -> str:
    with pytest.raises(httpx.ConnectError) as caught:
        await answer(tls, ca_file)
    return str(caught.value)


async def test_an_authority_that_nobody_knows_is_not_believed(authority: Authority) -> None:
    problem = await refusal(authority.server(NAME), None)
    assert problem.startswith("the certificate is not accepted: ")
    assert "self-signed certificate in certificate chain" in problem or "unable to get" in problem


async def test_the_certificate_of_another_host_is_not_accepted(authority: Authority) -> None:
    problem = await refusal(authority.server("other.test"), authority.ca_file)
    assert problem.startswith("the certificate is not accepted: Hostname mismatch")
    assert NAME in problem


async def test_a_certificate_that_has_expired_is_not_accepted(authority: Authority) -> None:
    yesterday = datetime.now(UTC) - timedelta(days=1)
    problem = await refusal(authority.server(NAME, expired=yesterday), authority.ca_file)
    assert problem == "the certificate is not accepted: certificate has expired"


async def test_an_old_protocol_is_not_spoken(authority: Authority) -> None:
    tls = authority.server(NAME)
    tls.set_ciphers("ALL:@SECLEVEL=0")  # or else the server itself would refuse it
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        tls.minimum_version = tls.maximum_version = ssl.TLSVersion.TLSv1_1
    problem = await refusal(tls, authority.ca_file)
    # Servers that say so before they close are told from those that only close.
    assert problem in {
        "TLS failed: the handshake was broken off",
        "TLS failed: tlsv1 alert protocol version",
    }


async def test_a_server_without_tls_is_told_from_one_that_is_down(authority: Authority) -> None:
    async with Hostile(says(b"HTTP/1.1 400 Bad Request\r\n\r\n"), reading=False) as server:
        transport = DeliveryTransport(egress=LOOPBACK, ca_file=authority.ca_file)
        url = server.url.replace("http:", "https:")
        with pytest.raises(httpx.ConnectError, match="TLS failed: wrong version number"):
            await transport.handle_async_request(httpx.Request("POST", url))
        await transport.aclose()
