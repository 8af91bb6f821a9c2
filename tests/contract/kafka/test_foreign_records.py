"""Records that other people's producers wrote, read through the tail and by fetches."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest
from kafka import KafkaProducer

from app.domain.message import NewRecord, Partition, Record
from app.log.interface import MessageLog
from tests.contract.logs import EVENTUALLY, MEBIBYTE, TOPIC, created, eventually, read_all
from tests.servers.kafka import SharedBroker


class Foreign:
    """A producer of kafka-python's, writing to our topic."""

    def __init__(self, broker: SharedBroker, namespace: str) -> None:
        self._bootstrap = broker.bootstrap
        self.topic = namespace + TOPIC

    @contextmanager
    def producer(self, **settings: object) -> Iterator[KafkaProducer]:
        producer = KafkaProducer(bootstrap_servers=self._bootstrap, linger_ms=50, **settings)
        try:
            yield producer
        finally:
            producer.close()

    def send(self, records: Sequence[Mapping[str, object]], **settings: object) -> None:
        with self.producer(**settings) as producer:
            for record in records:
                producer.send(self.topic, partition=0, **record)
            producer.flush()

    def transact(self, values: list[bytes], *, commit: bool) -> None:
        with self.producer(transactional_id=f"{self.topic}-tx") as producer:
            producer.init_transactions()
            producer.begin_transaction()
            for value in values:
                producer.send(self.topic, value=value, partition=0)
            if commit:
                producer.commit_transaction()
            else:
                producer.abort_transaction()


@pytest.fixture
def foreign(kafka_broker: SharedBroker, kafka_namespace: str) -> Foreign:
    return Foreign(kafka_broker, kafka_namespace)


async def tailed(log: MessageLog, partition: Partition, end: int) -> list[Record]:
    """All records of the partition as a tail reads them."""
    found: list[Record] = []
    offset = 0
    async with log.tail() as tail, asyncio.timeout(EVENTUALLY):
        tail.follow(partition, 0)
        while offset < end:
            for chunk in await tail.chunks():
                assert chunk.offset == offset
                found += chunk.records
                offset = chunk.next_offset
    return found


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
async def test_every_codec_is_read(log: MessageLog, foreign: Foreign, codec: str | None) -> None:
    (partition,) = await created(log)
    sent = [b"%d-" % n + b"x" * 500 for n in range(300)]
    await asyncio.to_thread(foreign.send, [{"value": v} for v in sent], compression_type=codec)
    assert [r.value for r in await read_all(log, partition)] == sent
    assert [r.value for r in await tailed(log, partition, 300)] == sent
    assert [r.value for r in await read_all(log, partition, 123)] == sent[123:]


async def test_null_keys_null_values_and_null_headers_are_read(
    log: MessageLog, foreign: Foreign
) -> None:
    (partition,) = await created(log)
    records: list[Mapping[str, object]] = [
        {"key": None, "value": b"v", "headers": [("h", b"1"), ("h", b"2")]},
        {"key": b"k", "value": None, "headers": []},
        {"key": b"", "value": b""},
    ]
    await asyncio.to_thread(foreign.send, records)
    found = [(r.key, r.value, r.headers) for r in await read_all(log, partition)]
    assert found == [
        (None, b"v", [(b"h", b"1"), (b"h", b"2")]),
        (b"k", None, []),
        (b"", b"", []),
    ]


async def test_a_transaction_s_end_takes_an_offset_and_is_no_record(
    log: MessageLog, foreign: Foreign
) -> None:
    (partition,) = await created(log)
    await asyncio.to_thread(foreign.transact, [b"a", b"b"], commit=True)

    async def ended() -> bool:
        # The broker writes the end after it has answered.
        return (await log.bounds([partition]))[partition].end == 3

    await eventually(ended)
    last = await log.fetch(partition, 2, bytes_max=MEBIBYTE)
    assert (list(last.records), last.next_offset, last.gap) == ([], 3, False)
    (position,) = await log.append(TOPIC, [NewRecord(value=b"c")])
    assert position.offset == 3
    assert [(r.offset, r.value) for r in await tailed(log, partition, 4)] == [
        (0, b"a"),
        (1, b"b"),
        (3, b"c"),
    ]


async def test_the_tail_passes_the_end_of_a_transaction_and_waits_behind_it(
    log: MessageLog, foreign: Foreign
) -> None:
    (partition,) = await created(log)
    await asyncio.to_thread(foreign.transact, [b"a"], commit=True)
    async with log.tail() as tail, asyncio.timeout(EVENTUALLY):
        tail.follow(partition, 0)
        offset = 0
        while offset < 2:
            offset = (await tail.chunks())[-1].next_offset
        await log.append(TOPIC, [NewRecord(value=b"b")])
        (chunk,) = await tail.chunks()
    assert (chunk.offset, [r.value for r in chunk.records]) == (2, [b"b"])


async def test_a_batch_beyond_the_size_of_a_chunk_is_read_whole(
    log: MessageLog, foreign: Foreign
) -> None:
    (partition,) = await created(log)
    value = b"x" * (MEBIBYTE + 1000)
    send = [{"value": value}]
    await asyncio.to_thread(foreign.send, send, max_request_size=4 * MEBIBYTE)
    assert [r.value for r in await tailed(log, partition, 1)] == [value]
