"""Records that other people's producers wrote, read through the tail and by fetches."""

import asyncio
import time

import pytest

from app.domain.message import NewRecord, Partition, Record
from app.log.interface import MessageLog
from app.log.kafka import ReadOptions, kafka_log
from tests.contract.logs import EVENTUALLY, MEBIBYTE, TOPIC, created, eventually, read_all
from tests.servers.foreign_producer import ForeignProducer
from tests.servers.kafka import SharedBroker


@pytest.fixture
def foreign(each_kafka: SharedBroker, kafka_namespace: str) -> ForeignProducer:
    return ForeignProducer(each_kafka, kafka_namespace + TOPIC)


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
async def test_every_codec_is_read(
    log: MessageLog, foreign: ForeignProducer, codec: str | None
) -> None:
    (partition,) = await created(log)
    sent = [b"%d-" % n + b"x" * 500 for n in range(300)]
    await asyncio.to_thread(foreign.send, [{"value": v} for v in sent], compression_type=codec)
    assert [r.value for r in await read_all(log, partition)] == sent
    assert [r.value for r in await tailed(log, partition, 300)] == sent
    assert [r.value for r in await read_all(log, partition, 123)] == sent[123:]


async def test_null_keys_null_values_and_null_headers_are_read(
    log: MessageLog, foreign: ForeignProducer
) -> None:
    (partition,) = await created(log)
    records: list[dict[str, object]] = [
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
    log: MessageLog, foreign: ForeignProducer
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
    log: MessageLog, foreign: ForeignProducer
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


async def test_what_was_aborted_is_never_read_and_its_places_are_passed(
    log: MessageLog, foreign: ForeignProducer
) -> None:
    (partition,) = await created(log)

    async def ends_at(offset: int) -> None:
        async def ended() -> bool:
            return (await log.bounds([partition]))[partition].end == offset

        await eventually(ended)

    await asyncio.to_thread(foreign.transact, [b"void", b"void"], commit=False)
    # Kafka may answer before it has written the end of a transaction.
    await ends_at(3)
    await log.append(TOPIC, [NewRecord(value=b"a")])
    await asyncio.to_thread(foreign.transact, [b"b"], commit=True)
    await asyncio.to_thread(foreign.transact, [b"void"], commit=False)
    await ends_at(8)
    wanted = [(3, b"a"), (4, b"b")]
    assert [(r.offset, r.value) for r in await tailed(log, partition, 8)] == wanted
    chunk = await log.fetch(partition, 0, bytes_max=MEBIBYTE)
    assert [(r.offset, r.value) for r in chunk.records] == wanted
    assert chunk.next_offset == 8


async def test_records_of_an_open_transaction_wait_with_all_behind_them(
    log: MessageLog, foreign: ForeignProducer
) -> None:
    (partition,) = await created(log)
    now_ms = time.time_ns() // 1_000_000
    await log.append(TOPIC, [NewRecord(value=b"a", timestamp_ms=now_ms - 60_000)])
    with foreign.transaction([b"b"]) as producer:
        await log.append(TOPIC, [NewRecord(value=b"c")])
        bounds = (await log.bounds([partition]))[partition]
        assert (bounds.start, bounds.end) == (0, 1)
        chunk = await log.fetch(partition, 0, bytes_max=MEBIBYTE)
        assert ([r.value for r in chunk.records], chunk.next_offset) == ([b"a"], 1)
        waiting = await log.fetch(partition, 1, bytes_max=MEBIBYTE)
        assert (waiting.records, waiting.next_offset, waiting.gap) == ([], 1, False)
        assert await log.offsets_at([partition], now_ms - 30_000) == {partition: 1}
        reading = asyncio.create_task(tailed(log, partition, 4))
        await asyncio.to_thread(producer.commit_transaction)
    assert [r.value for r in await reading] == [b"a", b"b", b"c"]
    assert await log.offsets_at([partition], now_ms - 30_000) == {partition: 1}
    assert (await log.bounds([partition]))[partition].end == 4


async def test_records_that_are_not_committed_are_read_at_once_if_that_is_set(
    each_kafka: SharedBroker, kafka_namespace: str, foreign: ForeignProducer
) -> None:
    async with kafka_log(
        each_kafka.bootstrap, namespace=kafka_namespace, options=ReadOptions(committed_only=False)
    ) as log:
        (partition,) = await created(log)
        with foreign.transaction([b"a"]) as producer:
            assert [r.value for r in await tailed(log, partition, 1)] == [b"a"]
            assert (await log.bounds([partition]))[partition].end == 1
            await asyncio.to_thread(producer.abort_transaction)


async def test_a_batch_beyond_the_size_of_a_chunk_is_read_whole(
    log: MessageLog, foreign: ForeignProducer
) -> None:
    (partition,) = await created(log)
    value = b"x" * (MEBIBYTE + 1000)
    send = [{"value": value}]
    await asyncio.to_thread(foreign.send, send, max_request_size=4 * MEBIBYTE)
    assert [r.value for r in await tailed(log, partition, 1)] == [value]
