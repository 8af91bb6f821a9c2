"""A worker on Kafka, to which others write as well: by transactions, and what they like."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace

import pytest
from kafka import KafkaAdminClient
from kafka.admin import NewPartitions

from app.domain.message import Partition
from app.domain.trace import TrackingMode
from app.log.kafka import kafka_log
from tests.fakes.egress import LOOPBACK
from tests.fakes.subscriber import Subscriber
from tests.fakes.worker import World, delivered
from tests.servers.foreign_producer import ForeignProducer
from tests.servers.kafka import SharedBroker
from workers.delivery.sender import Sender

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


# What Kafka lets anybody write, and what of it is delivered.
STRANGE: Sequence[tuple[Mapping[str, object], bytes | None]] = (
    ({"value": b'{"a":1}', "key": b"\xff\x00\xfe"}, b'{"a":1}'),
    ({"value": b'{"a":2}', "headers": [("h-x", b"1"), ("h-x", b"2")]}, b'{"a":2}'),
    ({"value": b'{"a":3}', "headers": [("id", b"\xff\xfe"), ("ct", b"")]}, b'{"a":3}'),
    ({"value": b'{"a":4}', "headers": [("é", b"\xff"), ("", b"")]}, b'{"a":4}'),
    ({"value": None, "key": b"\xff-gone"}, None),
    ({"value": b""}, b""),
    ({"value": b"\xff not json"}, b"\xff not json"),
)


async def test_whatever_others_write_is_delivered_but_tombstones_which_are_recorded(
    world: World, foreign: ForeignProducer
) -> None:
    async with Subscriber() as subscriber, Sender(egress=LOOPBACK) as sender:
        world = World(world.log, sender)
        topic = await world.topic(TOPIC, partitions=1)
        subscription = await world.subscribe(topic, "s", endpoint=subscriber.url, in_flight_max=1)
        world.plane.put(replace(subscription, tracking=TrackingMode.ALL))
        async with world.worker():
            await world.plane.until_applied()
            records = [record for record, _ in STRANGE]
            await asyncio.to_thread(foreign.send, records, compression_type="gzip")
            wanted = [body for _, body in STRANGE if body is not None]
            await world.plane.until(lambda: delivered(world, subscription.id) == len(wanted))
            await world.plane.until(lambda: bool(world.plane.undelivered))
    assert [each.body for each in subscriber.received] == wanted
    (tombstone,) = world.plane.undelivered
    assert (tombstone.offset, tombstone.key) == (4, b"\xff-gone")
    assert "no value" in tombstone.reason


async def test_a_partition_that_others_add_is_delivered_from_its_beginning(
    world: World, foreign: ForeignProducer, kafka_broker: SharedBroker
) -> None:
    topic = await world.topic(TOPIC, partitions=1)
    await world.subscribe(topic, "s")
    async with world.worker():
        await world.plane.until_applied()
        admin = KafkaAdminClient(bootstrap_servers=kafka_broker.bootstrap)
        try:
            await asyncio.to_thread(admin.create_partitions, {foreign.topic: NewPartitions(2)})
        finally:
            admin.close()
        await asyncio.to_thread(foreign.send, [{"value": b"new"}], partition=1)
        await world.endpoints.until(lambda: bool(world.endpoints.attempts))
    assert world.endpoints.bodies() == [b"new"]
