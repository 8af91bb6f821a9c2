"""What is said of an address where no broker answers: what listens there instead."""

import asyncio
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from app.config import Settings
from app.log.factory import what_listens_instead
from app.log.kafka.probe import what_listens
from tests.fakes.authority import Authority
from tests.servers.kafka import SharedBroker

HANDSHAKE_ERROR = 33


@asynccontextmanager
async def listening(
    answer: Callable[[bytes], bytes], context: ssl.SSLContext | None = None
) -> AsyncIterator[str]:
    """A server that answers what it reads first, and closes; its address."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if said := answer(await reader.read(4_096)):
            writer.write(said)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with server:
        host, port = server.sockets[0].getsockname()
        yield f"{host}:{port}"


def sasl_answer(request: bytes) -> bytes:
    """As a listener for SASL answers a handshake for a mechanism that it has not."""
    (kind,) = struct.unpack_from(">h", request, 4)
    assert kind == 17
    mechanisms = struct.pack(">i", 1) + struct.pack(">h", 13) + b"SCRAM-SHA-256"
    body = request[8:12] + struct.pack(">h", HANDSHAKE_ERROR) + mechanisms
    return struct.pack(">i", len(body)) + body


async def test_a_listener_for_tls_is_named(authority: Authority) -> None:
    context = authority.server("127.0.0.1")
    async with listening(lambda _: b"", context) as address:
        assert await what_listens(address) == (
            f"{address} wants TLS, which Angelia does not speak to Kafka: give it the address of a"
            " PLAINTEXT listener"
        )


async def test_a_listener_for_tls_that_asks_for_a_certificate_is_named(
    authority: Authority,
) -> None:
    context = authority.server_for(authority, "127.0.0.1")
    async with listening(lambda _: b"", context) as address:
        assert "wants TLS" in await what_listens(address)


async def test_a_listener_for_sasl_is_named() -> None:
    async with listening(sasl_answer) as address:
        assert "wants SASL, which Angelia does not speak" in await what_listens(address)


async def test_another_protocol_is_named() -> None:
    async with listening(lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n") as address:
        assert await what_listens(address) == f"{address} speaks HTTP, and not Kafka's protocol"
    async with listening(lambda _: b"SSH-2.0-OpenSSH_9.6\r\n") as address:
        assert "it says 'SSH-2.0-OpenSSH_9.6" in await what_listens(address)


async def test_the_one_of_several_addresses_is_named(kafka_broker: SharedBroker) -> None:
    async with listening(sasl_answer) as address:
        told = await what_listens(f"{kafka_broker.bootstrap}, {address}")
    assert told.startswith(f"{address} wants SASL")


async def test_of_what_may_be_a_broker_nothing_is_said(kafka_broker: SharedBroker) -> None:
    async with listening(lambda _: b"") as silent:
        for bootstrap in (kafka_broker.bootstrap, silent, "127.0.0.1:1", "no-port", "h:x"):
            assert await what_listens(bootstrap) == "", bootstrap


async def test_an_embedded_log_is_at_no_address(tmp_path: Path) -> None:
    assert await what_listens_instead(Settings(home=tmp_path)) == ""
