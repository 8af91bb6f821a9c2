"""Sessions by SASL, against a server that counts them."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

import pytest

from app.domain.kafka_security import KafkaSecurity
from app.log.kafka.caller import BrokerCaller
from app.log.kafka.client import NotSentError
from app.log.kafka.credentials import KafkaCredentials
from app.log.kafka.protocol.sasl import AUTHENTICATE, HANDSHAKE
from app.log.kafka.protocol.wire import FRAME_LENGTH, request
from tests.integration.log.brokers import an_answer, serving

USER = KafkaCredentials(
    KafkaSecurity(protocol="SASL_PLAINTEXT", mechanism="PLAIN", username="u", password="p")
)
ANOTHER = (3, 0)
SOON = 30.0


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
async def calling(server: SaslServer) -> AsyncIterator[BrokerCaller]:
    async with serving(server.serve) as address:
        caller = BrokerCaller(
            3, lambda: address, credentials=USER, answer_timeout=timedelta(seconds=10)
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


async def asking(caller: BrokerCaller) -> None:
    async with asyncio.timeout(SOON):
        while True:
            await ask(caller)
