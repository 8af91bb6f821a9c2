"""Quotas of a real broker: it is left alone for as long as it asks, and all is done after that."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from app.domain.message import NewRecord
from app.log.interface import MessageLog
from app.log.kafka import kafka_log
from app.log.throttling import throttled
from tests.contract.logs import EVENTUALLY, TOPIC, created
from tests.servers.kafka import KafkaBroker

VALUE = b"x" * 50_000
# Brokers count over eleven seconds, and never give a batch that is more than the quota for these.
WRITE_RATE = len(VALUE)
READ_RATE = 4 * len(VALUE)
RECORDS = 60


@pytest.fixture
async def log(own_kafka_broker: KafkaBroker, kafka_namespace: str) -> AsyncIterator[MessageLog]:
    async with kafka_log(own_kafka_broker.bootstrap, namespace=kafka_namespace) as opened:
        yield opened


# First: what it publishes is not throttled.
@pytest.mark.long
async def test_reading_over_a_quota_is_throttled_and_goes_on(
    log: MessageLog, own_kafka_broker: KafkaBroker
) -> None:
    (partition,) = await created(log, "shop.read")
    for _ in range(RECORDS // 10):
        await log.append(partition.topic, [NewRecord(value=VALUE)] * 10)
    quota = f"consumer_byte_rate={READ_RATE}"
    await asyncio.to_thread(own_kafka_broker.limit, "angelia-reading", quota)
    throttled, position, found = log.stats.throttled_seconds, 0, 0
    async with log.tail() as tail, asyncio.timeout(EVENTUALLY):
        tail.follow(partition, 0)
        while position < RECORDS:
            for chunk in await tail.chunks():
                position, found = chunk.next_offset, found + len(chunk.records)
        await log.append(partition.topic, [NewRecord(value=b"after")])
        while position <= RECORDS:
            position = (await tail.chunks())[-1].next_offset
    assert found == RECORDS
    assert log.stats.throttled_seconds > throttled


async def test_publishing_over_a_quota_is_throttled_and_goes_on(
    log: MessageLog, own_kafka_broker: KafkaBroker
) -> None:
    (partition,) = await created(log)
    quota = f"producer_byte_rate={WRITE_RATE}"
    await asyncio.to_thread(own_kafka_broker.limit, "angelia-produce", quota)
    stored = 0
    async with asyncio.timeout(EVENTUALLY):
        while not log.stats.throttled_seconds:
            stored += len(await log.append(TOPIC, [NewRecord(value=VALUE)]))
        stored += len(await log.append(TOPIC, [NewRecord(value=b"after")]))
    assert (await log.bounds([partition]))[partition].end == stored
    (line,) = throttled(log.stats)
    assert line.startswith("broker 1 throttles this process")
