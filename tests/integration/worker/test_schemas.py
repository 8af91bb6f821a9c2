"""A worker on an AVRO topic: what subscriptions get, filter, and never get."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from app.domain.catalogue.batching import DeliveryType
from app.domain.catalogue.dead_letter import DeadLetter
from app.domain.catalogue.filters import Filter, FilterType
from app.domain.catalogue.schema import ContentType, TopicSchema
from app.domain.catalogue.topic import Topic
from app.domain.message import NewRecord
from app.registry import open_registry
from app.schemas.avro import AvroCodec
from tests.fakes.egress import LOOPBACK
from tests.fakes.registry import FakeRegistry
from tests.fakes.subscriber import Subscriber
from tests.fakes.worker import World
from tests.integration.api.server import serving
from workers.delivery.sender import Sender

FIRST = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}'
SECOND = json.dumps(
    {
        "type": "record",
        "name": "R",
        "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "string", "default": "x"}],
    }
)
ONE = TopicSchema(version=1, id=70, text=FIRST)
TWO = TopicSchema(version=2, id=90, text=SECOND)
SPOILT = b"\x80"


def record(number: int, schema: TopicSchema = ONE, *, value: bytes | None = None) -> NewRecord:
    body = AvroCodec(schema.text).binary({"a": number}, wrapped=False, metadata={})
    headers = (
        (b"id", b"m-%d" % number),
        (b"ct", b"avro/binary"),
        (b"sv", b"%d" % schema.version),
        (b"sid", b"%d" % schema.id),
    )
    return NewRecord(value=body if value is None else value, headers=headers)


async def an_avro_topic(world: World, *schemas: TopicSchema) -> Topic:
    topic = replace(await world.topic(partitions=1), content_type=ContentType.AVRO, schemas=schemas)
    world.plane.add(topic)
    return topic


@asynccontextmanager
async def delivering() -> AsyncIterator[tuple[World, Subscriber]]:
    async with Subscriber() as subscriber, Sender(egress=LOOPBACK) as sender:
        yield World(sender=sender), subscriber


async def test_subscriptions_get_json_or_avro_as_they_asked() -> None:
    async with delivering() as (world, subscriber):
        topic = await an_avro_topic(world, ONE, TWO)
        await world.subscribe(topic, "plain", endpoint=f"{subscriber.url}plain")
        raw = await world.subscribe(topic, "raw", endpoint=f"{subscriber.url}raw")
        world.plane.put(replace(raw, content_type=ContentType.AVRO))
        async with world.worker():
            await world.log.append(topic.name, [record(1), record(2, TWO)])
            received = await subscriber.wait_for(4)
    plain = [each for each in received if each.path == "/plain"]
    assert sorted(each.body for each in plain) == [b'{"a":1}', b'{"a":2,"b":"x"}']
    assert {each.headers["content-type"] for each in plain} == {"application/json"}
    assert not [each for each in plain if "schema-version" in each.headers]
    avro = [
        (each.body, each.headers["content-type"], each.headers["schema-version"])
        for each in received
        if each.path == "/raw"
    ]
    assert sorted(avro) == sorted(
        (each.value, "avro/binary", version)
        for each, version in ((record(1), "1"), (record(2, TWO), "2"))
    )


async def test_filters_and_endpoints_look_into_avro() -> None:
    async with delivering() as (world, subscriber):
        topic = await an_avro_topic(world, ONE)
        known = await world.subscribe(topic, endpoint=f"{subscriber.url}{{a}}")
        wanted = Filter(type=FilterType.JSONPATH, path="$.a", matcher="[12]")
        world.plane.put(replace(known, filters=(wanted,)))
        async with world.worker():
            await world.log.append(topic.name, [record(number) for number in (1, 3, 2)])
            received = await subscriber.wait_for(2)
    assert sorted(each.path for each in received) == ["/1", "/2"]


async def test_batches_are_json() -> None:
    async with delivering() as (world, subscriber):
        topic = await an_avro_topic(world, ONE)
        known = await world.subscribe(topic, endpoint=subscriber.url, batch_size=2)
        world.plane.put(replace(known, delivery_type=DeliveryType.BATCH))
        async with world.worker():
            await world.log.append(topic.name, [record(1), record(2)])
            (batch,) = await subscriber.wait_for(1)
    assert [each["message"] for each in json.loads(batch.body)] == [{"a": 1}, {"a": 2}]


async def test_what_cannot_be_read_is_discarded_with_its_bytes_whatever_the_filters() -> None:
    async with delivering() as (world, subscriber):
        topic = await an_avro_topic(world, ONE)
        dead = await world.topic("shop.dead", partitions=1)
        known = await world.subscribe(topic, endpoint=subscriber.url)
        wanted = Filter(type=FilterType.JSONPATH, path="$.a", matcher="2")
        letters = DeadLetter(topic=dead.name)
        world.plane.put(replace(known, filters=(wanted,), dead_letter=letters))
        async with world.worker():
            await world.log.append(topic.name, [record(1, value=SPOILT), record(2)])
            await subscriber.wait_for(1)
            await world.plane.until(lambda: bool(world.plane.undelivered))
    ((reason, body, headers),) = [
        (each.reason, each.body, dict(each.headers)) for each in world.plane.undelivered
    ]
    assert reason.startswith("malformed: is not Avro of its schema")
    assert (body, headers["Content-Type"]) == (SPOILT, "avro/binary")
    assert [each.value for each in world.memory.records("shop.dead")] == [SPOILT]


async def test_a_message_that_is_ahead_of_its_schema_waits_for_it() -> None:
    async with delivering() as (world, subscriber):
        topic = await an_avro_topic(world, ONE)
        wanted = Filter(type=FilterType.JSONPATH, path="$.b", matcher="x")
        known = await world.subscribe(topic, endpoint=subscriber.url)
        world.plane.put(replace(known, filters=(wanted,)))
        beside = await world.topic("shop.beside", partitions=1)
        await world.subscribe(beside, endpoint=f"{subscriber.url}beside")
        async with world.worker():
            await world.plane.until_applied()
            world.plane.down = True
            await world.log.append(topic.name, [record(1, TWO), record(2, TWO)])
            # Once this is here, those before it have been looked at.
            await world.publish(beside, b"{}")
            assert [each.path for each in await subscriber.wait_for(1)] == ["/beside"]
            world.plane.down = False
            world.plane.add(replace(topic, schemas=(ONE, TWO)))
            _, *received = await subscriber.wait_for(3)
    assert sorted(each.body for each in received) == [b'{"a":1,"b":"x"}', b'{"a":2,"b":"x"}']
    assert world.plane.undelivered == []


async def test_a_record_of_no_version_holds_nothing_while_the_database_is_down() -> None:
    async with delivering() as (world, subscriber):
        topic = await an_avro_topic(world, ONE)
        await world.subscribe(topic, endpoint=subscriber.url)
        async with world.worker():
            await world.plane.until_applied()
            world.plane.down = True
            # With an id, as what is published here has it, whose version is waited for.
            headers = ((b"id", b"foreign"), (b"sv", b"99999"))
            foreign = NewRecord(value=record(1).value, headers=headers)
            await world.log.append(topic.name, [foreign, record(2)])
            (received,) = await subscriber.wait_for(1)
            assert received.body == b'{"a":2}'
            world.plane.down = False


async def test_an_id_that_only_the_registry_knows_is_delivered_and_no_other() -> None:
    registry = FakeRegistry()
    async with (
        serving(registry.app()) as served,
        open_registry(str(served.base_url)) as client,
        delivering() as (world, subscriber),
    ):
        world.registry = client
        topic = await an_avro_topic(world, ONE)
        registry.put(topic.name, FIRST)
        number = registry.subjects[topic.name][registry.put(topic.name, SECOND)]["id"]
        await world.subscribe(topic, endpoint=subscriber.url)
        async with world.worker():
            body = record(7, TWO).value
            # A foreign producer's: Confluent's prefix, and no headers.
            known, unknown = (b"\0" + each.to_bytes(4) + body for each in (number, number + 9))
            await world.log.append(topic.name, [NewRecord(value=known), NewRecord(value=unknown)])
            (received,) = await subscriber.wait_for(1)
            assert received.body == b'{"a":7,"b":"x"}'
            await world.plane.until(lambda: len(world.plane.undelivered) == 1)
    (discarded,) = world.plane.undelivered
    assert "the version of its schema is not known" in discarded.reason
    # The control plane learns of it by the API.
    assert world.plane.topics[topic.name].schemas == (ONE,)


# ---- a topic that was JSON ----------------------------------------------------------------------


def published(body: bytes, *headers: tuple[bytes, bytes]) -> NewRecord:
    """As a JSON topic has it."""
    return NewRecord(value=body, headers=((b"id", body), *headers))


async def a_json_topic(world: World) -> Topic:
    return await world.topic(partitions=1)


def as_avro(topic: Topic) -> Topic:
    return replace(
        topic, content_type=ContentType.AVRO, migrated_from_json=True, schemas=(ONE, TWO)
    )


async def test_what_a_topic_had_as_json_is_delivered_as_it_was_after_it_became_avro() -> None:
    async with delivering() as (world, subscriber):
        topic = await a_json_topic(world)
        known = await world.subscribe(topic, endpoint=subscriber.url)
        wanted = Filter(type=FilterType.JSONPATH, path="$.a", matcher="[12]")
        world.plane.put(replace(known, filters=(wanted,)))
        kind = (b"ct", b"application/vnd.shop+json")
        before = [published(b'{"a": 1, "c": 7}', kind), published(b'{"a": 3}')]
        await world.log.append(topic.name, before)
        world.plane.add(as_avro(topic))
        await world.log.append(topic.name, [record(2, TWO), record(3), published(b'{"a":1}')])
        async with world.worker():
            received = await subscriber.wait_for(3)
    assert sorted((each.body, each.headers["content-type"]) for each in received) == [
        (b'{"a": 1, "c": 7}', "application/vnd.shop+json"),
        (b'{"a":1}', "application/json"),
        (b'{"a":2,"b":"x"}', "application/json"),
    ]
    assert world.plane.undelivered == []


async def test_avro_that_is_ahead_of_word_that_its_topic_is_avro_waits_for_it() -> None:
    async with delivering() as (world, subscriber):
        topic = await a_json_topic(world)
        await world.subscribe(topic, endpoint=subscriber.url)
        beside = await world.topic("shop.beside", partitions=1)
        await world.subscribe(beside, endpoint=f"{subscriber.url}beside")
        async with world.worker():
            await world.plane.until_applied()
            world.plane.down = True
            await world.log.append(topic.name, [published(b'{"a":0}'), record(1)])
            # Once this is here, those before it have been looked at.
            await world.publish(beside, b"{}")
            assert [each.path for each in await subscriber.wait_for(1)] == ["/beside"]
            world.plane.down = False
            world.plane.add(as_avro(topic))
            _, *received = await subscriber.wait_for(3)
    assert sorted(each.body for each in received) == [b'{"a":0}', b'{"a":1}']


async def test_what_only_looks_like_avro_is_delivered_as_it_is_once_that_is_known() -> None:
    async with delivering() as (world, subscriber):
        topic = await a_json_topic(world)
        await world.subscribe(topic, endpoint=subscriber.url)
        async with world.worker():
            await world.plane.until_applied()
            await world.log.append(topic.name, [record(1)])
            # Another change: the worker asks for word of all of them.
            await world.topic("shop.other", partitions=1)
            (received,) = await subscriber.wait_for(1)
    assert received.body == record(1).value


async def test_batches_and_avro_are_made_of_messages_of_both_kinds() -> None:
    async with delivering() as (world, subscriber):
        topic = await a_json_topic(world)
        batches = await world.subscribe(topic, endpoint=f"{subscriber.url}batch", batch_size=3)
        world.plane.put(replace(batches, delivery_type=DeliveryType.BATCH))
        raw = await world.subscribe(topic, "raw", endpoint=f"{subscriber.url}raw")
        world.plane.put(replace(raw, content_type=ContentType.AVRO))
        await world.log.append(topic.name, [published(b'{"a": 1}'), published(b'{"c": 2}')])
        world.plane.add(as_avro(topic))
        await world.log.append(topic.name, [record(3)])
        async with world.worker():
            received = await subscriber.wait_for(4)
    (batch,) = [each.body for each in received if each.path == "/batch"]
    assert [each["message"] for each in json.loads(batch)] == [{"a": 1}, {"c": 2}, {"a": 3}]
    kinds = [
        (each.headers["content-type"], each.headers.get("schema-version"), each.body)
        for each in received
        if each.path == "/raw"
    ]
    assert sorted(kinds, key=str) == [
        ("application/json", None, b'{"c": 2}'),
        ("avro/binary", "1", record(3).value),
        ("avro/binary", "2", record(1, TWO).value),
    ]
