"""Sessions by SASL, against a server that counts them."""

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

import pytest

from app.domain.kafka_security import KafkaSecurity
from app.log.deadlines import CallDeadline
from app.log.kafka.caller import BrokerCaller
from app.log.kafka.client import NotSentError
from app.log.kafka.credentials import KafkaCredentials
from app.log.kafka.link import Link, connect
from app.log.kafka.protocol.sasl import (
    ANSWER_BYTES_MAX,
    AUTHENTICATE,
    HANDSHAKE,
    read_handshake,
)
from app.log.kafka.protocol.wire import FRAME_LENGTH, MalformedAnswerError, request
from app.log.kafka.refusals import RefusedError
from app.log.kafka.sasl import Ask, authenticate
from app.log.kafka.tokens.access_tokens import AccessTokens
from app.token_answers import Issued
from tests.integration.log.brokers import an_answer, serving

USER = KafkaCredentials(
    KafkaSecurity(protocol="SASL_PLAINTEXT", mechanism="PLAIN", username="u", password="p")
)
BY_TOKEN = KafkaSecurity(protocol="SASL_PLAINTEXT", mechanism="OAUTHBEARER")
ANOTHER = (3, 0)
SOON = 30.0
LONG = timedelta(seconds=SOON)


@dataclass
class SaslServer:
    """Answers all that is asked; its sessions end after so many milliseconds."""

    lifetime_ms: int
    error_code: int = 0
    connections: int = 0
    handshakes: int = 0
    others: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while length := await reader.read(FRAME_LENGTH.size):
            asked = await reader.readexactly(*FRAME_LENGTH.unpack(length))
            kind, _, correlation = struct.unpack_from(">hhi", asked)
            writer.write(self.answer(kind, correlation))

    def answer(self, kind: int, correlation: int) -> bytes:
        if kind == HANDSHAKE[0]:
            self.handshakes += 1
            return framed(correlation, struct.pack(">hi", 0, 0))
        if kind == AUTHENTICATE[0]:
            said = struct.pack(">hhiq", self.error_code, -1, 0, self.lifetime_ms)
            return framed(correlation, said)
        self.others += 1
        return an_answer(correlation)


def framed(correlation: int, body: bytes) -> bytes:
    return struct.pack(">ii", 4 + len(body), correlation) + body


@asynccontextmanager
async def calling(
    server: SaslServer, credentials: KafkaCredentials = USER
) -> AsyncIterator[BrokerCaller]:
    async with serving(server.serve) as address:
        caller = BrokerCaller(
            3, lambda: address, credentials=credentials, answer_timeout=timedelta(seconds=10)
        )
        try:
            yield caller
        finally:
            caller.close()


async def ask(caller: BrokerCaller) -> None:
    await caller.ask(lambda id_: request(ANOTHER, id_, client="c", body=[]))


async def test_a_session_without_an_end_is_begun_once() -> None:
    server = SaslServer(lifetime_ms=0)
    async with calling(server) as caller:
        for _ in range(3):
            await asyncio.gather(ask(caller), ask(caller))
    assert (server.connections, server.handshakes, server.others) == (1, 1, 6)


async def test_a_session_may_last_longer_than_any_date_can_say() -> None:
    server = SaslServer(lifetime_ms=2**63 - 1)
    async with calling(server) as caller:
        for _ in range(3):
            await ask(caller)
    assert (server.connections, server.handshakes, server.others) == (1, 1, 3)


async def test_a_session_that_ends_is_begun_anew_on_its_connection() -> None:
    server = SaslServer(lifetime_ms=1)
    asked = 0
    async with calling(server) as caller, asyncio.timeout(SOON):
        while server.handshakes < 4:
            await asyncio.gather(ask(caller), ask(caller))
            asked += 2
    assert (server.connections, server.others) == (1, asked)


async def test_a_login_that_was_refused_is_not_tried_again_at_once() -> None:
    server = SaslServer(lifetime_ms=0, error_code=58)
    async with calling(server) as caller:
        for _ in range(20):
            with pytest.raises(NotSentError):
                await ask(caller)
    assert server.handshakes < 5


class Tokens(AccessTokens):
    """Those that a test gives."""

    given: Issued | None = None

    def __init__(self) -> None:
        super().__init__(self, origin="login.test")

    async def request(self) -> Issued:
        return self.given or Issued("")

    async def ready(self) -> None:
        """Wait for nothing."""

    def token(self) -> str:
        if self.given is None:
            raise RefusedError("needs an access token, and there is none")
        return self.given.token


async def test_while_there_is_no_token_nobody_is_asked_and_with_one_no_pause_is_left() -> None:
    server, tokens = SaslServer(lifetime_ms=0), Tokens()
    async with calling(server, KafkaCredentials(BY_TOKEN, tokens)) as caller:
        for _ in range(3):
            with pytest.raises(NotSentError):
                await ask(caller)
        assert server.connections == 0
        tokens.given = Issued("t-1")
        await ask(caller)
    assert (server.connections, server.handshakes) == (1, 1)


async def test_a_session_that_is_not_begun_anew_ends_with_its_connection() -> None:
    server = SaslServer(lifetime_ms=1)
    async with calling(server) as caller:
        await ask(caller)
        server.error_code = 58
        with pytest.raises(NotSentError):
            await asking(caller)
        server.error_code = 0
        await ask(caller)
    assert server.connections == 2


BY_SCRAM = KafkaCredentials(
    KafkaSecurity(protocol="SASL_PLAINTEXT", mechanism="SCRAM-SHA-512", username="u", password="p")
)


@pytest.mark.parametrize("count", [b"1", b"4095", b"100001", b"1000000", b"-1", b"", b"9" * 30])
async def test_a_password_is_hashed_neither_too_seldom_nor_too_often(count: bytes) -> None:
    with pytest.raises(RefusedError, match="4,096 to 100,000"):
        await authenticate(scram_server(count), BY_SCRAM)


@pytest.mark.parametrize("count", [b"4096", b"16384", b"100000"])
async def test_a_password_is_hashed_as_often_as_brokers_want_beside_the_event_loop(
    count: bytes,
) -> None:
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    turning = asyncio.create_task(turn())
    with pytest.raises(RefusedError, match="does not prove"):
        await authenticate(scram_server(count), BY_SCRAM)
    turning.cancel()
    assert turns > 1


def scram_server(count: bytes) -> Ask:
    """Answers as a server that asks for so many rounds, and does not know the password."""

    async def ask(frame: Callable[[int], bytes]) -> bytes:
        request = frame(1)
        if struct.unpack_from(">h", request, 4) == HANDSHAKE[:1]:
            return framed(1, struct.pack(">hi", 0, 0))[4:]
        nonce = request.partition(b",r=")[2].partition(b",")[0]
        token = b"r=%bs,s=c2FsdA==,i=%b" % (nonce, count) if b"n,," in request else b"v=AAAA"
        said = struct.pack(">hhi", 0, -1, len(token)) + token + struct.pack(">q", 0)
        return framed(1, said)[4:]

    return ask


@pytest.mark.parametrize("size", [ANSWER_BYTES_MAX + 1, -1])
async def test_no_large_answer_is_taken_from_who_is_not_known(size: int) -> None:
    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(FRAME_LENGTH.pack(size))

    async with serving(say) as address, asyncio.timeout(SOON):
        link = Link(NoListener(), bytes_max=2**30)
        with pytest.raises(MalformedAnswerError):
            await connect(link, address, credentials=USER, patience=CallDeadline(LONG))


class NoListener:
    """Of a link that is closed before anything is asked."""

    def receive(self, frame: bytes) -> None:
        raise AssertionError(frame)

    def misunderstood(self, error: MalformedAnswerError) -> None:
        raise AssertionError(error)

    def disconnected(self, link: Link, exc: Exception | None) -> None:
        """As it should be."""


def test_of_many_mechanisms_a_few_are_named() -> None:
    name = struct.pack(">h", 1000) + b"m" * 1000
    answer = read_handshake(framed(1, struct.pack(">hi", 33, 30) + name * 30)[4:])
    assert answer.mechanisms == ["m" * 40] * 20


async def asking(caller: BrokerCaller) -> None:
    async with asyncio.timeout(SOON):
        while True:
            await ask(caller)
