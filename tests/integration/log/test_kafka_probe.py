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
TRIES: Final = 20


async def told(bootstrap: str, credentials: KafkaCredentials, words: str) -> Unreached:
    """What is said of these addresses; without words, nothing is.

    The probe waits one second for an answer. On a busy machine that may be too short: the probe
    then learns nothing, or too little. So it is repeated until it says the words.
    """
    for _ in range(TRIES):
        said = await what_refuses(bootstrap, credentials)
        if not said.is_silent and (words in said.problem if words else not said.problem):
            break
    return said


async def refused(
    bootstrap: str, security: KafkaSecurity = IN_THE_CLEAR, *, words: str = ""
) -> str:
    """What is said of the first of these addresses, without the address, once it has the words."""
    async with opened_credentials(security) as credentials:
        said = await told(bootstrap, credentials, words)
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
    words = (
        "does not take this user and password by SCRAM-SHA-256: check "
        "ANGELIA_KAFKA_SASL_USERNAME and ANGELIA_KAFKA_SASL_PASSWORD"
    )
    said = await told(bootstrap, KafkaCredentials(replace(security, password="wr0ng")), words)
    assert said.problem == f"{bootstrap} {words}"


NO_TOKEN: Final = "needs an access token, and there is none from https://127.0.0.1"


async def test_a_token_that_is_not_issued_or_not_taken_is_named(
    secured: SecuredListeners, tokens: TokenEndpoint
) -> None:
    async def of(words: str, **other: object) -> str:
        oauth = replace(tokens.oauth, **other)  # type: ignore[arg-type]  # any of its fields
        return await refused(*secured.at("oauth", oauth=oauth), words=words)

    assert await of("") == ""
    wrong = await of(NO_TOKEN, client_secret="wr0ng")
    assert wrong == (
        f"{NO_TOKEN}:{tokens.port}/token: it answers 401 (invalid_client): check "
        "ANGELIA_KAFKA_OAUTH_CLIENT_ID and ANGELIA_KAFKA_OAUTH_CLIENT_SECRET"
    )
    down = await of("it cannot be reached", token_url="https://127.0.0.1:1/token")
    assert down.startswith(f"{NO_TOKEN}:1/token: it cannot be reached")
    assert down.endswith("check ANGELIA_KAFKA_OAUTH_TOKEN_URL")
    trusted = "its certificate cannot be trusted"
    unknown = await of(trusted, ca_file=secured.file("other.pem"))
    assert trusted in unknown
    assert unknown.endswith("check ANGELIA_KAFKA_OAUTH_CA_FILE")
    tokens.audience = "others"
    not_taken = "does not take the access token of angelia: check"
    assert (await of(not_taken)).startswith(not_taken)


async def test_an_endpoint_of_tokens_that_does_not_answer_is_named(
    secured: SecuredListeners, tokens: TokenEndpoint
) -> None:
    async with serving(never) as (host, port):
        oauth = replace(tokens.oauth, token_url=f"http://{host}:{port}/token")
        words = f"from http://{host}:{port}/token: it does not answer within 2 s"
        said = await refused(*secured.at("oauth", oauth=oauth), words=words)
        assert said.endswith(words)


async def test_a_mechanism_that_a_listener_has_not_is_named() -> None:
    security = KafkaSecurity(
        protocol="SASL_PLAINTEXT", mechanism="PLAIN", username="u", password="p"
    )
    words = "takes SCRAM-SHA-256, and not PLAIN: set ANGELIA_KAFKA_SASL_MECHANISM"
    async with listening(sasl_answer) as address:
        assert await refused(address, security, words=words) == words


async def test_certificates_of_brokers_that_cannot_be_trusted_are_named(
    secured: SecuredListeners,
) -> None:
    bootstrap, security = secured.at("sasl_ssl")
    other = replace(security, ca_file=secured.file("other.pem"))
    words = "has a certificate of an authority that is not known"
    said = await refused(bootstrap, other, words=words)
    assert said.startswith(words)
    assert said.endswith("set ANGELIA_KAFKA_CA_FILE")
    named = bootstrap.replace("127.0.0.1", "localhost")
    words = "certificate for other names"
    assert words in await refused(named, security, words=words)
    words = "certificate that has expired"
    assert words in await refused(*secured.at("expired"), words=words)


async def test_a_certificate_of_ours_that_is_missing_or_not_known_is_named(
    secured: SecuredListeners, authority: Authority
) -> None:
    bootstrap, security = secured.at("mutual")
    without = replace(security, certificate_file=None, key_file=None)
    words = (
        "wants a certificate of ours: set ANGELIA_KAFKA_CERTIFICATE_FILE and ANGELIA_KAFKA_KEY_FILE"
    )
    assert await refused(bootstrap, without, words=words) == words
    chain, key = authority.files(authority.ca_file.parent, "angelia.test")
    other = replace(security, certificate_file=chain, key_file=key)
    words = "does not take our certificate"
    assert words in await refused(bootstrap, other, words=words)
    words = "do not fit each other"
    assert words in await refused(bootstrap, replace(security, key_file=key), words=words)


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
    assert await refused(address, securities[ours], words=words) == words


async def test_another_protocol_is_named() -> None:
    words = "speaks HTTP, and not Kafka's protocol"
    async with listening(lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n") as address:
        assert await refused(address, words=words) == words
    words = "it says 'SSH-2.0-OpenSSH_9.6"
    async with listening(lambda _: b"SSH-2.0-OpenSSH_9.6\r\n") as address:
        assert words in await refused(address, words=words)


async def test_the_first_of_several_addresses_is_named_unless_one_takes_us(
    kafka_broker: SharedBroker,
) -> None:
    credentials = KafkaCredentials(IN_THE_CLEAR)
    async with listening(sasl_answer) as address:
        bootstrap = f"127.0.0.1:1,{address}, 127.0.0.1:1"
        said = await told(bootstrap, credentials, "wants SASL")
        assert said.problem.startswith(f"{address} wants SASL")
        assert await refused(f"{address}, {kafka_broker.bootstrap}") == ""


async def test_who_refuses_us_says_more_than_who_is_silent() -> None:
    credentials = KafkaCredentials(IN_THE_CLEAR)
    async with serving(never) as (host, port), listening(sasl_answer) as address:
        silent = await what_refuses(f"{host}:{port}", credentials)
        assert silent == (f"{host}:{port} does not answer within 1 s", True)
        said = await told(f"{host}:{port},{address}", credentials, "wants SASL")
    assert said.problem.startswith(f"{address} wants SASL")
    assert not said.is_silent


NO_ADDRESSES: Final = ("no-port", "h:x", "127.0.0.1:90920", "a..b:9092", "a" * 64 + ":1", "h:²")


async def test_of_what_may_be_a_broker_nothing_is_said(kafka_broker: SharedBroker) -> None:
    async with listening(lambda _: b"") as silent:
        for bootstrap in (kafka_broker.bootstrap, silent, "127.0.0.1:1", *NO_ADDRESSES):
            assert await refused(bootstrap) == "", bootstrap
