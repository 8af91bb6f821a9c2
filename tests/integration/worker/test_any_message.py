"""One worker, messages of every kind, and every setting that looks into them.

Each message ends for each subscription: delivered, filtered out, or recorded as discarded. A
subscription beside them gets all of it.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from app.domain.catalogue.batching import BatchFormat, DeliveryType
from app.domain.catalogue.dead_letter import DeadLetter
from app.domain.catalogue.filters import Filter, FilterType, MatchingStrategy
from app.domain.catalogue.schema import ContentType, TopicSchema
from app.domain.catalogue.signing_secrets import SigningKind, SigningSecret
from app.domain.catalogue.subscription import (
    ContentMode,
    DeliveryPolicy,
    EndpointMode,
    Ordering,
    Subscription,
)
from app.domain.catalogue.topic import MESSAGE_SIZE_MAX, Topic
from app.domain.message import NewRecord
from app.domain.trace import TrackingMode
from app.log.interface import LogTopic
from app.signing import new_signing_key
from tests.fakes.egress import LOOPBACK
from tests.fakes.subscriber import Received, Reply, Subscriber
from tests.fakes.worker import World
from workers.delivery.sender import Sender

MIB: Final = 1 << 20
DEEP: Final = b'{"a":' + 255 * b"[" + 255 * b"]" + b"}"
BODIES: Final = (
    DEEP,
    b"[" * 1_000 + b"]" * 1_000,
    b"[" * 20_000 + b"]" * 20_000,
    b'{"a":' * 900 + b"1" + b"}" * 900,
    b"",
    b" ",
    b"\0",
    b"not json",
    b"\xff\xfe\xfd",
    b'{"a":"\\ud800"}',
    b'{"a":"\xed\xa0\x80"}',
    b'{"a":"\\u0000","\\u0000":1}',
    b'{"a":"x\0y"}',
    b'{"a":1e999,"b":-0.0}',
    b'{"a":' + b"9" * 5_000 + b"}",
    b'{"a":18446744073709551615,"b":-9223372036854775808}',
    b'{"a":1,"a":2,"":{"":null}}',
    b'{"a":"..","b":"%00/../"}',
    b'{"a":{"b":{"c":"d"}}}',
    b"null",
    b"true",
    b"0",
    b"1e400",
    b'"text"',
    b"[]",
    b"{}",
    b"[1,[2,[3]],null]",
    b'{"a":"' + b"x" * MIB + b'"}',
    b"[" + b"[]," * (MIB // 3) + b"0]",
    b'{"specversion":"1.0","id":"1","source":"/","type":"t","data":{"a":1}}',
    b'{"specversion":"1.0","data_base64":"!","datacontenttype":"text/plain"}',
)
STRANGE: Final[Mapping[bytes, bytes]] = {
    b"id": b"\0\xff id",
    b"ct": b"application/cloudevents+json",
    b"w": b"\xff not an address",
    b"r": b"nobody",
    b"ts": b"x",
    b"h-": b"no name",
    b"h-x-tenant": b"\xff\0\r\n",
    b"h-ce-id": b"%ff%00",
    b"h-traceparent": b"00-not-a-trace",
    b"h-Angelia-Dead-Letter-Route": b"\xff" * 9,
}
NUMBERS: Final[Mapping[bytes, bytes]] = {b"sv": b"1", b"sid": b"9" * 5_000}
POLICY: Final = DeliveryPolicy(
    rate=100_000,
    adaptive_rate=False,
    max_retries=1,
    message_backoff=timedelta(milliseconds=1),
    request_timeout=timedelta(seconds=30),
    in_flight_max=20,
)
Changes = dict[str, object]


def filtered(**of: str | MatchingStrategy) -> Changes:
    kind = FilterType.JSONPATH if "path" in of else FilterType.HEADER
    return {"filters": (Filter(**{"type": kind, "matcher": ".*", **of}),)}  # type: ignore[arg-type]


def judged(expression: str) -> Changes:
    return {"filters": (Filter(type=FilterType.CEL, expression=expression),)}


def batched(kind: BatchFormat) -> Changes:
    fast = replace(POLICY, batch_time=timedelta(milliseconds=20), batch_volume=4 * MIB)
    return {"delivery_type": DeliveryType.BATCH, "batch_format": kind, "policy": fast}


def signed() -> Changes:
    secrets = tuple(
        SigningSecret(
            id=kind.value, kind=kind, key=new_signing_key(kind).text, created_at=datetime.now(UTC)
        )
        for kind in SigningKind
    )
    return {"signing_secrets": secrets}


SETTINGS: Final[Mapping[str, Changes]] = {
    "healthy": {},
    "path": filtered(path="$.a"),
    "descendants": filtered(path="$..*"),
    "any-of-descendants": filtered(path="$..*", matching_strategy=MatchingStrategy.ANY),
    "root": filtered(path="$"),
    "test": filtered(path="$[?@.a == @.b || @ == $.a || @ == $]"),
    "header": filtered(header="x-tenant"),
    "body": judged("body.a == body.b || body == 1"),
    "text": judged("text.contains('a') && size(text) > int(id)"),
    "other-variables": judged("headers['x-tenant'] == key || id == topic || timestamp > 1"),
    "template": {"endpoint": "{a}/{a.b.c}?x={b}"},
    "expression": {"failure_expression": "int(headers['x']) > int(body)"},
    "ce-binary": {"content_mode": ContentMode.CE_BINARY},
    "ce-structured": {"content_mode": ContentMode.CE_STRUCTURED},
    "wrapped": batched(BatchFormat.WRAPPED),
    "plain": batched(BatchFormat.PLAIN),
    "ndjson": batched(BatchFormat.NDJSON),
    "events": batched(BatchFormat.PLAIN) | {"content_mode": ContentMode.CE_STRUCTURED},
    "signed": signed(),
    "by-key": {"ordering": Ordering.KEY},
    "in-order": {"ordering": Ordering.PARTITION} | filtered(path="$.a"),
    "avro": {"content_type": ContentType.AVRO},
    "traced": {"tracking": TrackingMode.ALL} | filtered(path="$..a"),
    "dead-letters": {
        "dead_letter": DeadLetter(topic="shop.dead"),
        "content_type": ContentType.AVRO,
        "tracking": TrackingMode.ALL,
    },
    "broadcast": {"mode": EndpointMode.BROADCAST, "identity_headers": True},
    "late": {"policy": replace(POLICY, publish_ttl=timedelta(hours=1))},
}


def records(*more: NewRecord) -> Sequence[NewRecord]:
    """Each body as it is, with headers of foreign producers, and with a key."""
    strange = tuple(STRANGE.items())
    return [
        *(NewRecord(value=body) for body in BODIES),
        *(NewRecord(value=body, headers=strange, key=b"\0\xff") for body in BODIES),
        *more,
    ]


async def subscribed(world: World, topic: Topic, url: str) -> Mapping[str, Subscription]:
    made = {}
    for name, each in SETTINGS.items():
        known = await world.subscribe(topic, name, endpoint=f"{url}{name}")
        endpoint = (
            {"endpoint": f"{known.endpoint}/{each['endpoint']}"} if "endpoint" in each else {}
        )
        made[name] = world.plane.put(replace(known, **{"policy": POLICY, **each, **endpoint}))  # type: ignore[arg-type]
    return made


def ended(world: World, subscription: Subscription) -> tuple[int, int, int]:
    """Messages delivered, discarded and filtered out."""
    of_it = [s for (i, _), s in world.plane.statuses.items() if i == subscription.id]
    return (
        sum(s.delivered for s in of_it),
        sum(s.discarded for s in of_it),
        sum(s.filtered for s in of_it),
    )


async def a_topic(world: World, name: str = "shop.orders", **settings: object) -> Topic:
    """A topic that takes the largest messages there are."""
    made = replace(await world.topic(name), message_size_max=MESSAGE_SIZE_MAX, **settings)  # type: ignore[arg-type]
    world.plane.add(made)
    size = 2 * MESSAGE_SIZE_MAX
    stored = LogTopic(
        name=name, partitions=made.partitions, retention=made.retention, message_size_max=size
    )
    await world.log.alter_topic(stored)
    return made


async def until_ended(world: World, made: Iterable[Subscription], count: int) -> None:
    for each in made:
        await world.plane.until(partial(has_ended, world, each, count))


def has_ended(world: World, subscription: Subscription, count: int) -> bool:
    return sum(ended(world, subscription)) >= count


async def all_end(
    world: World, topic: Topic, published: Sequence[NewRecord], *, url: str
) -> Mapping[str, tuple[int, int, int]]:
    """How many messages ended in which way, by subscription, once all did."""
    made = await subscribed(world, topic, url)
    async with world.worker():
        await world.plane.until_applied()
        await world.log.append(topic.name, published)
        await until_ended(world, made.values(), len(published))
        # What comes afterwards is delivered as well: the worker lives.
        await world.publish(topic, b'{"a":"last"}')
        await world.plane.until(lambda: ended(world, made["healthy"])[0] == len(published) + 1)
    return {name: ended(world, each) for name, each in made.items()}


def refuse_letters(received: Received) -> Reply:
    return Reply(status=400 if received.path == "/dead-letters" else 200)


async def test_every_message_ends_for_every_subscription_and_the_neighbour_gets_all() -> None:
    async with Subscriber(refuse_letters) as subscriber, Sender(egress=LOOPBACK) as sender:
        world = World(sender=sender)
        topic = await a_topic(world)
        await a_topic(world, "shop.dead")
        published = records()
        found = await all_end(world, topic, published, url=subscriber.url)
    assert found["healthy"] == (len(published) + 1, 0, 0)
    assert all(sum(each) >= len(published) for each in found.values()), found
    got = sorted(each.body for each in subscriber.received if each.path == "/healthy")
    assert got == sorted([*(each.value for each in published), b'{"a":"last"}'])
    assert len(world.memory.records("shop.dead")) == found["dead-letters"][1] > 0


SCHEMA: Final = TopicSchema(
    version=1,
    id=7,
    text=json.dumps(
        {
            "type": "record",
            "name": "R",
            "fields": [
                {"name": "a", "type": ["null", "string", "R"]},
                {"name": "b", "type": {"type": "array", "items": ["null", "R", "double"]}},
            ],
        }
    ),
)
# Each value of `a` is another record.
NESTED: Final = b"\x04" * 100_000
WRITTEN: Final = ((b"ct", b"avro/binary"), (b"sv", b"1"), (b"sid", b"7"))


async def test_the_same_holds_for_avro() -> None:
    async with Subscriber() as subscriber, Sender(egress=LOOPBACK) as sender:
        world = World(sender=sender)
        topic = await a_topic(world, content_type=ContentType.AVRO, schemas=(SCHEMA,))
        await a_topic(world, "shop.dead")
        good = NewRecord(value=b"\x02\x02x\x00", headers=WRITTEN)
        more = [
            *(NewRecord(value=body, headers=WRITTEN) for body in (*BODIES, NESTED)),
            *(NewRecord(value=body, headers=tuple(NUMBERS.items())) for body in BODIES),
            NewRecord(value=b"\0" + SCHEMA.id.to_bytes(4) + good.value),
            *[good] * 5,
        ]
        published = [*records(*more)]
        made = await subscribed(world, topic, subscriber.url)
        async with world.worker():
            await world.plane.until_applied()
            await world.log.append(topic.name, published)
            await until_ended(world, made.values(), len(published))
    bodies = [each.body for each in subscriber.received if each.path == "/healthy"]
    assert bodies.count(b'{"a":"x","b":[]}') >= 5
