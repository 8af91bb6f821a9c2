"""Connections of kafka-python's, to where brokers say that others are."""

import asyncio
import socket
from copy import copy

import pytest

from app.log.kafka.bridge import IoThread
from app.log.kafka.client import Client, NotSentError, PlainTransport
from app.log.kafka.credentials import KafkaCredentials
from app.log.kafka.tokens.access_tokens import AccessTokens
from app.log.kafka.tokens.client_credentials import ClientCredentials
from tests.integration.log.brokers import PLAIN
from tests.servers.kafka import SharedBroker
from tests.servers.token_endpoint import TokenEndpoint

ELSEWHERE = 77
SOON = 60.0


@pytest.mark.parametrize(
    ("host", "port"), [("127.0.0.1", 70_000), ("a..b", 9092), ("a" * 64, 9092), ("127.0.0.1", 1)]
)
async def test_nothing_is_sent_to_where_no_broker_can_be(
    kafka_broker: SharedBroker, host: str, port: int
) -> None:
    io = IoThread("test")

    async def ask() -> None:
        client = Client(
            io, kafka_broker.bootstrap, credentials=PLAIN, name="test", request_timeout=3.0
        )
        try:
            await client.ready()
            cluster = client.manager.cluster
            (known,) = cluster.brokers()
            other = copy(known)
            other.node_id, other.host, other.port = ELSEWHERE, host, port
            cluster._brokers[ELSEWHERE] = other  # noqa: SLF001 - as a broker would say
            await client.send(ELSEWHERE, None)
        finally:
            client.close()

    try:
        with pytest.raises(NotSentError):
            await io.run(ask)
    finally:
        await io.close()


def test_the_last_bytes_before_the_end_of_a_connection_are_passed_on() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        ours.settimeout(0)
        with theirs:
            theirs.sendall(b"why")
        transport = PlainTransport(None, ours, host="h")
        assert transport._sock_recv() == (b"why", None)  # noqa: SLF001 - kafka-python calls it
        received, error = transport._sock_recv()  # noqa: SLF001 - the same
    assert received == b""
    assert "socket disconnected" in str(error)


class Tokens(AccessTokens):
    """Those of an endpoint; they note that one was refused."""

    def __init__(self, source: ClientCredentials) -> None:
        super().__init__(source, origin="the tests")
        self.were_refused = asyncio.Event()

    def refused(self) -> None:
        self.were_refused.set()


async def test_a_token_that_a_broker_refuses_is_not_kept(
    kafka_broker: SharedBroker, tokens: TokenEndpoint
) -> None:
    tokens.audience = "others"
    bootstrap, security = kafka_broker.secured.at("oauth", oauth=tokens.oauth)
    io = IoThread("test")
    async with Tokens(ClientCredentials(security.oauth)) as given:

        async def ask() -> None:
            credentials = KafkaCredentials(security, given)
            client = Client(
                io, bootstrap, credentials=credentials, name="test", request_timeout=3.0
            )
            try:
                await client.ready()
            finally:
                client.close()

        try:
            # A connection may be too slow for a login.
            async with asyncio.timeout(SOON):
                while not given.were_refused.is_set():
                    with pytest.raises(NotSentError):
                        await io.run(ask)
        finally:
            await io.close()
