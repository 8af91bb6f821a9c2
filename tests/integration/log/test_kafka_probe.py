"""What is said of an address where no broker takes us: why, and what to set."""

import asyncio
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

import pytest

from app.domain.kafka_security import IN_THE_CLEAR, KafkaSecurity
from app.log.kafka.credentials import KafkaCredentials, opened_credentials
from app.log.kafka.probe import Unreached, what_refuses
from tests.fakes.authority import Authority
from tests.integration.log.brokers import never, serving
from tests.servers.kafka import SharedBroker
from tests.servers.kafka_listeners import SecuredListeners
from tests.servers.token_endpoint import TokenEndpoint

TLS_IS_MEANT: Final = (
    "does not speak TLS here: check the port and the listener; "
    "only if it is meant to be in the clear, "
)
PROTOCOL: Final = "set ANGELIA_KAFKA_SECURITY_PROTOCOL to"
HANDSHAKE_ERROR: Final = 33
TRIES: Final = 5


async def told(bootstrap: str, credentials: KafkaCredentials) -> Unreached:
    """What is said of these addresses.

    The probe waits one second for an answer. On a busy machine that may be too short, so a probe
    that learns nothing is repeated.
    """
    for _ in range(TRIES):
        said = await what_refuses(bootstrap, credentials)
        if said.problem and not said.is_silent:
            break
    return said


async def refused(bootstrap: str, security: KafkaSecurity = IN_THE_CLEAR) -> str:
    """What is said of the first of these addresses, without the address."""
    async with opened_credentials(security) as credentials:
        said = await told(bootstrap, credentials)
    return said.problem.partition(" ")[2]


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


@pytest.fixture
def secured(kafka_broker: SharedBroker) -> SecuredListeners:
    return kafka_broker.secured


@pytest.mark.parametrize("name", ["sasl_ssl", "mutual", "sasl_plaintext"])
async def test_of_a_broker_that_takes_us_nothing_is_said(
    secured: SecuredListeners, name: str
) -> None:
    assert await refused(*secured.at(name)) == ""


async def test_a_wrong_password_is_named(secured: SecuredListeners) -> None:
    bootstrap, security = secured.at("sasl_ssl")
    said = await told(bootstrap, KafkaCredentials(replace(security, password="wr0ng")))
    assert said.problem == (
        f"{bootstrap} does not take this user and password by SCRAM-SHA-256: check "
        "ANGELIA_KAFKA_SASL_USERNAME and ANGELIA_KAFKA_SASL_PASSWORD"
    )


NO_TOKEN: Final = "needs an access token, and there is none from https://127.0.0.1"


async def test_a_token_that_is_not_issued_or_not_taken_is_named(
    secured: SecuredListeners, tokens: TokenEndpoint
) -> None:
    async def of(**other: object) -> str:
        oauth = replace(tokens.oauth, **other)  # type: ignore[arg-type]  # any of its fields
        return await refused(*secured.at("oauth", oauth=oauth))

    assert await of() == ""
    wrong = await of(client_secret="wr0ng")
    assert wrong == (
        f"{NO_TOKEN}:{tokens.port}/token: it answers 401 (invalid_client): check "
        "ANGELIA_KAFKA_OAUTH_CLIENT_ID and ANGELIA_KAFKA_OAUTH_CLIENT_SECRET"
    )
    down = await of(token_url="https://127.0.0.1:1/token")
    assert down.startswith(f"{NO_TOKEN}:1/token: it cannot be reached")
    assert down.endswith("check ANGELIA_KAFKA_OAUTH_TOKEN_URL")
    unknown = await of(ca_file=secured.file("other.pem"))
    assert "its certificate cannot be trusted" in unknown
    assert unknown.endswith("check ANGELIA_KAFKA_OAUTH_CA_FILE")
    tokens.audience = "others"
    assert (await of()).startswith("does not take the access token of angelia: check")


async def test_an_endpoint_of_tokens_that_does_not_answer_is_named(
    secured: SecuredListeners, tokens: TokenEndpoint
) -> None:
    async with serving(never) as (host, port):
        oauth = replace(tokens.oauth, token_url=f"http://{host}:{port}/token")
        assert (await refused(*secured.at("oauth", oauth=oauth))).endswith(
            f"from http://{host}:{port}/token: it does not answer within 2 s"
        )


async def test_a_mechanism_that_a_listener_has_not_is_named() -> None:
    security = KafkaSecurity(
        protocol="SASL_PLAINTEXT", mechanism="PLAIN", username="u", password="p"
    )
    async with listening(sasl_answer) as address:
        assert await refused(address, security) == (
            "takes SCRAM-SHA-256, and not PLAIN: set ANGELIA_KAFKA_SASL_MECHANISM"
        )


async def test_certificates_of_brokers_that_cannot_be_trusted_are_named(
    secured: SecuredListeners,
) -> None:
    bootstrap, security = secured.at("sasl_ssl")
    other = replace(security, ca_file=secured.file("other.pem"))
    said = await refused(bootstrap, other)
    assert said.startswith("has a certificate of an authority that is not known")
    assert said.endswith("set ANGELIA_KAFKA_CA_FILE")
    named = bootstrap.replace("127.0.0.1", "localhost")
    assert "certificate for other names" in await refused(named, security)
    assert "certificate that has expired" in await refused(*secured.at("expired"))


async def test_a_certificate_of_ours_that_is_missing_or_not_known_is_named(
    secured: SecuredListeners, authority: Authority
) -> None:
    bootstrap, security = secured.at("mutual")
    without = replace(security, certificate_file=None, key_file=None)
    assert await refused(bootstrap, without) == (
        "wants a certificate of ours: set ANGELIA_KAFKA_CERTIFICATE_FILE and ANGELIA_KAFKA_KEY_FILE"
    )
    chain, key = authority.files(authority.ca_file.parent, "angelia.test")
    other = replace(security, certificate_file=chain, key_file=key)
    assert "does not take our certificate" in await refused(bootstrap, other)
    unfit = replace(security, key_file=key)
    assert "do not fit each other" in await refused(bootstrap, unfit)


@pytest.mark.parametrize(
    ("listener", "ours", "words"),
    [
        ("sasl_ssl", "PLAINTEXT", f"wants TLS: {PROTOCOL} SSL, or SASL_SSL"),
        ("mutual", "PLAINTEXT", f"wants TLS: {PROTOCOL} SSL, or SASL_SSL"),
        ("sasl_ssl", "SASL_PLAINTEXT", f"wants TLS: {PROTOCOL} SASL_SSL"),
        ("sasl_ssl", "SSL", f"wants SASL: {PROTOCOL} SASL_SSL"),
        ("sasl_plaintext", "PLAINTEXT", f"wants SASL: {PROTOCOL} SASL_PLAINTEXT"),
        ("sasl_plaintext", "SASL_SSL", f"{TLS_IS_MEANT}{PROTOCOL} SASL_PLAINTEXT"),
        ("plain", "SASL_PLAINTEXT", f"has no SASL: {PROTOCOL} PLAINTEXT"),
        ("plain", "SSL", f"{TLS_IS_MEANT}{PROTOCOL} PLAINTEXT"),
        ("plain", "PLAINTEXT", ""),
    ],
)
async def test_another_protocol_of_kafkas_is_named(
    kafka_broker: SharedBroker, listener: str, ours: str, words: str
) -> None:
    given = kafka_broker.secured.at("sasl_ssl").security
    securities = {
        "PLAINTEXT": IN_THE_CLEAR,
        "SSL": KafkaSecurity(protocol="SSL", ca_file=given.ca_file),
        "SASL_PLAINTEXT": kafka_broker.secured.at("sasl_plaintext").security,
        "SASL_SSL": given,
    }
    is_plain = listener == "plain"
    address = kafka_broker.bootstrap if is_plain else kafka_broker.secured.at(listener).bootstrap
    assert await refused(address, securities[ours]) == words


async def test_another_protocol_is_named() -> None:
    async with listening(lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n") as address:
        assert await refused(address) == "speaks HTTP, and not Kafka's protocol"
    async with listening(lambda _: b"SSH-2.0-OpenSSH_9.6\r\n") as address:
        assert "it says 'SSH-2.0-OpenSSH_9.6" in await refused(address)


async def test_the_first_of_several_addresses_is_named_unless_one_takes_us(
    kafka_broker: SharedBroker,
) -> None:
    credentials = KafkaCredentials(IN_THE_CLEAR)
    async with listening(sasl_answer) as address:
        said = await told(f"127.0.0.1:1,{address}, 127.0.0.1:1", credentials)
        assert said.problem.startswith(f"{address} wants SASL")
        assert await refused(f"{address}, {kafka_broker.bootstrap}") == ""


async def test_who_refuses_us_says_more_than_who_is_silent() -> None:
    async with serving(never) as (host, port), listening(sasl_answer) as address:
        silent = await what_refuses(f"{host}:{port}", KafkaCredentials(IN_THE_CLEAR))
        assert silent == (f"{host}:{port} does not answer within 1 s", True)
        said = await told(f"{host}:{port},{address}", KafkaCredentials(IN_THE_CLEAR))
    assert said.problem.startswith(f"{address} wants SASL")
    assert not said.is_silent


NO_ADDRESSES: Final = ("no-port", "h:x", "127.0.0.1:90920", "a..b:9092", "a" * 64 + ":1", "h:²")


async def test_of_what_may_be_a_broker_nothing_is_said(kafka_broker: SharedBroker) -> None:
    async with listening(lambda _: b"") as silent:
        for bootstrap in (kafka_broker.bootstrap, silent, "127.0.0.1:1", *NO_ADDRESSES):
            assert await refused(bootstrap) == "", bootstrap
