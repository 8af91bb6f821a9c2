"""What we pack, the broker keeps packed, and everybody reads."""

import asyncio
from typing import Any

import pytest
from kafka import KafkaAdminClient, TopicPartition

from app.domain.message import NewRecord, Partition
from app.log.kafka import Compression, kafka_log
from tests.contract.kafka.consumers import consuming
from tests.contract.logs import EVENTUALLY, TOPIC, created, read_all
from tests.servers.kafka import SharedBroker

# Packed in place, and on a thread.
COUNTS = (3, 300)


def sent(count: int) -> list[NewRecord]:
    return [
        NewRecord(value=b"%d " % n + b"x" * 1_000, key=b"k", headers=((b"id", b"%d" % n),))
        for n in range(count)
    ]


async def tailed(log: Any, partition: Partition, count: int) -> list[bytes | None]:  # noqa: ANN401 - any log
    found: list[bytes | None] = []
    async with log.tail() as tail, asyncio.timeout(EVENTUALLY):
        tail.follow(partition, 0)
        while len(found) < count:
            found += [r.value for chunk in await tail.chunks() for r in chunk.records]
    return found


def read_by_others(broker: SharedBroker, topic: str, count: int) -> list[bytes]:
    with consuming(broker.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        return [next(consumer).value for _ in range(count)]


def stored_bytes(broker: SharedBroker, topic: str) -> int:
    """What the topic takes on the broker's disk."""
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        (broker_disk,) = admin.describe_log_dirs([topic])
    finally:
        admin.close()
    (topic_disk,) = broker_disk["log_dirs"][0]["topics"]
    return sum(each["partition_size"] for each in topic_disk["partitions"])


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("compression", Compression)
async def test_what_is_packed_is_read_by_us_and_by_others(
    each_kafka: SharedBroker, kafka_namespace: str, compression: Compression, count: int
) -> None:
    records = sent(count)
    values = [record.value for record in records]
    async with kafka_log(
        each_kafka.bootstrap, namespace=kafka_namespace, compression=compression
    ) as log:
        (partition,) = await created(log)
        positions = await log.append(TOPIC, records)
        assert [position.offset for position in positions] == list(range(count))
        found = await read_all(log, partition)
        assert [(r.value, r.key, tuple(r.headers)) for r in found] == [
            (r.value, r.key, r.headers) for r in records
        ]
        assert await tailed(log, partition, count) == values
    name = kafka_namespace + TOPIC
    assert await asyncio.to_thread(read_by_others, each_kafka, name, count) == values


@pytest.mark.parametrize("compression", Compression)
async def test_what_is_packed_takes_less_room(
    kafka_broker: SharedBroker, kafka_namespace: str, compression: Compression
) -> None:
    async with kafka_log(
        kafka_broker.bootstrap, namespace=kafka_namespace, compression=compression
    ) as log:
        await created(log)
        await log.append(TOPIC, sent(100))
    name = kafka_namespace + TOPIC
    stored = await asyncio.to_thread(stored_bytes, kafka_broker, name)
    assert (stored < 20_000) is (compression is not Compression.NONE)
