"""A worker on Kafka, to which others write as well: by transactions, and what they like."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from app.domain.message import Partition
from app.log.kafka import kafka_log
from tests.fakes.worker import World
from tests.servers.foreign_producer import ForeignProducer
from tests.servers.kafka import SharedBroker

TOPIC = "shop.orders"
PARTITION = Partition(TOPIC, 0)


@pytest.fixture
async def world(kafka_broker: SharedBroker, kafka_namespace: str) -> AsyncIterator[World]:
    async with kafka_log(kafka_broker.bootstrap, namespace=kafka_namespace) as log:
        yield World(log)


@pytest.fixture
def foreign(kafka_broker: SharedBroker, kafka_namespace: str) -> ForeignProducer:
    return ForeignProducer(kafka_broker, kafka_namespace + TOPIC)


async def test_what_is_committed_is_delivered_and_the_lag_comes_to_an_end_behind_an_abort(
    world: World, foreign: ForeignProducer
) -> None:
    topic = await world.topic(TOPIC, partitions=1)
    subscription = await world.subscribe(topic, "s")

    def done(end: int) -> bool:
        status = world.plane.statuses.get((subscription.id, PARTITION))
        return status is not None and (status.offset, status.end) == (end, end)

    async with world.worker():
        await world.plane.until_applied()
        await asyncio.to_thread(foreign.transact, [b"a"], commit=True)
        await asyncio.to_thread(foreign.transact, [b"void"], commit=False)
        # The last offset is that of a control record.
        await world.plane.until(lambda: done(4))
        with foreign.transaction([b"b"]) as producer:
            await world.publish(topic, b"c")
            assert world.endpoints.bodies() == [b"a"]
            await asyncio.to_thread(producer.commit_transaction)
        await world.plane.until(lambda: done(7))
    assert world.endpoints.bodies() == [b"a", b"b", b"c"]
    committed = (await world.log.committed({subscription.group: [PARTITION]}))[subscription.group]
    assert committed[PARTITION].offset == (await world.log.bounds([PARTITION]))[PARTITION].end == 7
