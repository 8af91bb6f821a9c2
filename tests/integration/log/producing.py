"""A producer, and a broker that answers it as it is told."""

import asyncio
import struct
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

from kafka.protocol.producer import ProduceRequest
from kafka.record import MemoryRecords

from app.domain.catalogue.topic import Ack
from app.domain.errors import LogUnavailableError, TopicNotFoundError
from app.domain.message import NewRecord
from app.log.interface import LogStats, Position
from app.log.kafka.append_queues import Located
from app.log.kafka.producer import Producer
from app.log.kafka.protocol.appends import VERSION
from app.log.kafka.protocol.compression import Compression
from app.log.kafka.protocol.wire import FRAME_LENGTH
from app.log.kafka.sequences import AskForId
from tests.integration.log.brokers import PLAIN

TOPIC = "t"
OK, CORRUPT, TOO_LARGE, NOT_LEADER, FEW_REPLICAS, FENCED, DUPLICATE = 0, 2, 10, 6, 19, 47, 46
OUT_OF_ORDER, INVALID_RECORD, INVALID_TIMESTAMP = 45, 87, 32
HANG_UP, SILENT_ON_IT = -100, -101
NODE = 1

Answer = Callable[[list[bytes]], int]
"""From the values of a batch to an error code, or what else is done."""


class Broker:
    """Stores what it takes; `answer` decides."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.stored: dict[int, list[bytes]] = {}
        # Producer id, epoch and sequence number of each batch that came.
        self.stamps: list[tuple[int, int, int]] = []
        self.requests = 0
        self.connections = 0
        self.left = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while head := await reader.read(FRAME_LENGTH.size):
                (length,) = FRAME_LENGTH.unpack(head)
                answer = self._answered(await reader.readexactly(length))
                if answer is None:
                    return
                writer.write(FRAME_LENGTH.pack(len(answer)) + answer)
        finally:
            writer.close()
            self.left.set()

    def _answered(self, frame: bytes) -> bytes | None:
        self.requests += 1
        request = ProduceRequest.decode(frame, version=VERSION, header=True)
        (topic,) = request.topic_data
        answers = list(self._partitions(topic.partition_data))
        if any(code == HANG_UP for _, code, _ in answers):
            return None
        said = [each for each in answers if each[1] != SILENT_ON_IT]
        name = topic.name.encode()
        return b"".join(
            [
                struct.pack(">iih", request.header.correlation_id, 1, len(name)) + name,
                struct.pack(">i", len(said)),
                *(struct.pack(">ihqqqih", *each, -1, 0, 0, -1) for each in said),
                struct.pack(">i", 0),
            ]
        )

    def _partitions(self, partitions: list[object]) -> Iterator[tuple[int, int, int]]:
        for each in partitions:
            batches = list(MemoryRecords(bytes(each.records)))  # type: ignore[attr-defined]  # kafka has no types
            self.stamps += [
                (batch.producer_id, batch.producer_epoch, batch.base_sequence) for batch in batches
            ]
            values = [record.value for batch in batches for record in batch]
            index: int = each.index  # type: ignore[attr-defined]  # the same
            code, stored = self._answer(values), self.stored.setdefault(index, [])
            yield index, code, -1 if code == DUPLICATE else len(stored)
            if code == OK:
                stored += values


class Place:
    """Where the topic is, and how often that was asked; a question may fail."""

    def __init__(self, address: tuple[str, int], partitions: int) -> None:
        self._found = Located(dict.fromkeys(range(partitions), NODE), {NODE: address})
        self.failures: list[Exception | None] = []
        self.asked = 0

    async def __call__(self, name: str) -> Located | None:
        assert name == f"n.{TOPIC}"
        self.asked += 1
        failure = self.failures.pop() if self.failures else None
        if isinstance(failure, TopicNotFoundError):
            return None
        if failure:
            raise failure
        return self._found


@asynccontextmanager
async def producing(
    answer: Answer,
    *,
    partitions: int = 1,
    compression: Compression = Compression.NONE,
    ask_for_id: AskForId | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncIterator[tuple[Producer, Broker, Place]]:
    broker = Broker(answer)
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    place = Place(server.sockets[0].getsockname(), partitions)
    try:
        async with Producer(
            place,
            prefix="n.",
            credentials=PLAIN,
            stats=LogStats(),
            compression=compression,
            ask_for_id=ask_for_id,
            clock=clock,
        ) as producer:
            yield producer, broker, place
    finally:
        server.close()


async def appended(producer: Producer, *values: bytes) -> list[Position]:
    records = [NewRecord(value=value, key=b"k") for value in values]
    return list(await producer.append(TOPIC, records, Ack.ALL))


def in_turn(*codes: int) -> Answer:
    """These codes for one batch after the other, then OK."""
    left = list(codes)
    return lambda _: left.pop(0) if left else OK


async def appended_or_error(
    producer: Producer, value: bytes = b"x"
) -> list[Position] | LogUnavailableError:
    try:
        return await appended(producer, value)
    except LogUnavailableError as error:
        return error
