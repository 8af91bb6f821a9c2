"""Brokers over whose quota we are: they get nothing until the time is over that they ask for."""

import asyncio
import struct
from collections.abc import Collection

import pytest

from app.domain.errors import LogUnavailableError
from app.log.interface import LogStats
from app.log.kafka.fetch_requests import Fetcher
from app.log.kafka.link import Address
from app.log.kafka.partition_leaders import LeaderCache, PartitionLeaders, ReadSource
from app.log.kafka.protocol.fetches import NO_SESSION, FetchRequest, ReadOptions
from app.log.kafka.protocol.wire import FRAME_LENGTH
from app.log.kafka.throttle import THROTTLE_S_MAX
from tests.integration.log.brokers import PLAIN, an_answer, serving
from tests.integration.log.test_kafka_broker import SOON, connected, send

NODE = 3
PLACE = ReadSource(NODE)
LONG_MS = 3_600_000
SHORT_MS = 20
ASKED = FetchRequest(positions={}, bytes_max=1, wait_ms=0, session=NO_SESSION)


class ThrottlingBroker:
    """Asks with its first answer for nothing to be sent for so long."""

    def __init__(self, throttle_ms: int) -> None:
        self._throttle_ms = throttle_ms
        self.requests = 0

    async def appends(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while request := await reader.read(FRAME_LENGTH.size):
            writer.write(an_answer(*FRAME_LENGTH.unpack(request), throttle_ms=self._next()))

    async def fetches(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.read(FRAME_LENGTH.size):
            frame = await reader.readexactly(*FRAME_LENGTH.unpack(head))
            (correlation,) = struct.unpack_from(">i", frame, 4)
            body = struct.pack(">iihii", correlation, self._next(), 0, 0, 0)
            writer.write(FRAME_LENGTH.pack(len(body)) + body)

    def _next(self) -> int:
        self.requests += 1
        return self._throttle_ms if self.requests == 1 else 0


async def a_fetcher(address: Address, stats: LogStats) -> Fetcher:
    async def look(topics: Collection[str]) -> PartitionLeaders:
        return PartitionLeaders({each: {0: NODE} for each in topics}, {NODE: address})

    places = LeaderCache(look)
    await places.leaders(["t"])
    return Fetcher(places, credentials=PLAIN, options=ReadOptions(), stats=stats)


async def test_a_broker_that_throttles_takes_no_appends_meanwhile() -> None:
    stats = LogStats()
    async with connected(ThrottlingBroker(LONG_MS).appends, stats=stats) as (broker, heard):
        send(broker)
        await heard.until(lambda: bool(heard.answers))
        assert broker.is_open
        assert not broker.ready
    # Not for as long as it says, however long that is.
    assert stats.throttled_seconds == pytest.approx(THROTTLE_S_MAX)


async def test_appends_go_on_when_the_time_is_over() -> None:
    async with connected(ThrottlingBroker(SHORT_MS).appends) as (broker, heard):
        send(broker)
        await heard.until(lambda: heard.openings == 2)
        assert broker.ready
        send(broker)
        await heard.until(lambda: len(heard.answers) == 2)
        assert broker.ready


async def test_a_broker_that_throttles_gets_no_fetches_meanwhile() -> None:
    stats, broker = LogStats(), ThrottlingBroker(LONG_MS)
    async with serving(broker.fetches) as address:
        fetcher = await a_fetcher(address, stats)
        await fetcher.fetch(PLACE, ASKED)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(fetcher.fetch(PLACE, ASKED), SOON.total_seconds())
        with pytest.raises(LogUnavailableError, match="quota"):
            await fetcher.fetch(PLACE, ASKED, patience_s=SOON.total_seconds())
        fetcher.close()
    assert broker.requests == 1
    assert stats.throttled_seconds == pytest.approx(THROTTLE_S_MAX)


async def test_fetches_go_on_when_the_time_is_over() -> None:
    stats, broker = LogStats(), ThrottlingBroker(SHORT_MS)
    async with serving(broker.fetches) as address:
        fetcher = await a_fetcher(address, stats)
        for _ in range(2):
            await fetcher.fetch(PLACE, ASKED)
        fetcher.close()
    assert broker.requests == 2
    assert stats.throttled_seconds == pytest.approx(SHORT_MS / 1000)
