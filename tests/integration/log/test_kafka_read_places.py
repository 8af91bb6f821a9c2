"""The connections of a fetcher: a broker answers each in order, so one must not delay another."""

import asyncio
import struct
from collections.abc import Collection

from app.log.interface import LogStats
from app.log.kafka.fetch_requests import Fetcher
from app.log.kafka.partition_leaders import LeaderCache, PartitionLeaders, ReadSource
from app.log.kafka.protocol.fetches import FetchRequest, ReadOptions
from app.log.kafka.protocol.wire import FRAME_LENGTH
from tests.contract.logs import EVENTUALLY
from tests.integration.log.brokers import PLAIN, serving

NODE = 3
ASKED = FetchRequest(positions={}, bytes_max=1, wait_ms=0)


class PollingBroker:
    """Keeps the first request waiting until it is woken."""

    def __init__(self) -> None:
        self.connections = 0
        self.asked = asyncio.Event()
        self.woken = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while head := await reader.read(FRAME_LENGTH.size):
            frame = await reader.readexactly(*FRAME_LENGTH.unpack(head))
            if not self.asked.is_set():
                self.asked.set()
                await self.woken.wait()
            (correlation,) = struct.unpack_from(">i", frame, 4)
            body = struct.pack(">iihii", correlation, 0, 0, 0, 0)
            writer.write(FRAME_LENGTH.pack(len(body)) + body)


async def test_a_poll_delays_none_of_another_place_at_the_same_broker() -> None:
    broker = PollingBroker()
    async with serving(broker.serve) as address, asyncio.timeout(EVENTUALLY):

        async def look(topics: Collection[str]) -> PartitionLeaders:
            return PartitionLeaders({each: {0: NODE} for each in topics}, {NODE: address})

        places = LeaderCache(look)
        await places.leaders(["t"])
        options = ReadOptions(rack="r")
        fetcher = Fetcher(places, credentials=PLAIN, options=options, stats=LogStats())
        idle = asyncio.create_task(fetcher.fetch(ReadSource(NODE, by_rack=True), ASKED))
        await broker.asked.wait()
        await fetcher.fetch(ReadSource(NODE, is_leader=False), ASKED)
        # On the same connection.
        await fetcher.fetch(ReadSource(NODE, is_leader=False), ASKED)
        assert broker.connections == 2
        idle.cancel()
        broker.woken.set()
        fetcher.close()
