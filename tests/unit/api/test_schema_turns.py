"""What takes long to be checked against a schema is checked on a thread."""

import gc
import json

import orjson
import pytest

from app.api.publish.schema_check import TURN_NS, RequestedSchema, SchemaCheck
from app.domain.catalogue.schema import ContentType, TopicSchema
from app.domain.catalogue.topic import MESSAGE_SIZE_MAX, Topic
from app.domain.errors import MessageInvalidError, ThroughputQuotaError
from app.schemas.json_bodies import WHOLE_BYTES_MAX
from app.schemas.request_work import RequestWork
from app.services.directory.topics import TopicDirectory
from app.services.publishing.publisher import Publication
from tests.fakes.schemas import schema_check
from tests.fakes.turns import turns_beside
from tests.unit.schemas.test_avro_work import ALIKE, record

NUMBERS = {"type": "array", "items": "long"}
# Each item is tried as each of 300 records, which are alike until the inside of the inside.
FITTING = record("F", {"name": "a", "type": record("I", {"name": "b", "type": "int"})})
TRIED = {"type": "array", "items": [*ALIKE, FITTING]}


def a_topic(kind: ContentType, schema: object) -> Topic:
    made = TopicSchema(version=1, id=1, text=json.dumps(schema))
    return Topic(
        name="shop.orders",
        content_type=kind,
        schemas=(made,),
        message_size_max=MESSAGE_SIZE_MAX,
    )


AVRO = a_topic(ContentType.AVRO, NUMBERS)
COSTLY = a_topic(ContentType.AVRO, TRIED)
ROW = record("R", {"name": "n", "type": {"type": "array", "items": "long"}})
LISTED = a_topic(ContentType.AVRO, {"type": "array", "items": ROW})
ANY = a_topic(ContentType.JSON, {"items": {"required": ["n"]}})
JSON = a_topic(ContentType.JSON, {"items": {"type": "integer"}})


async def known(_name: str) -> Topic:
    raise AssertionError


def a_check() -> SchemaCheck:
    return schema_check(TopicDirectory(known))


async def stored(topic: Topic, body: bytes, work: RequestWork | None = None) -> Publication:
    publication = Publication(
        id=b"m", body=body, content_type=b"application/json", partition_key=None, propagated=()
    )
    return await a_check().stored(topic, publication, RequestedSchema(), now_ms=1, work=work)


def numbers(count: int) -> bytes:
    return orjson.dumps(list(range(count)))


def tried(count: int) -> bytes:
    return orjson.dumps([{"a": {"b": 1}}] * count)


# Many containers, which the collector would look at.
LISTS = orjson.dumps([{"n": [n]} for n in range(40_000)])
LARGE = numbers(WHOLE_BYTES_MAX // 4)


@pytest.mark.parametrize("topic", [AVRO, JSON])
async def test_a_large_message_is_checked_beside_the_loop(topic: Topic) -> None:
    assert await turns_beside(stored(topic, LARGE)) > 0
    assert (await stored(topic, LARGE)).body == (await stored(topic, LARGE, RequestWork(0))).body


@pytest.mark.parametrize("topic", [LISTED, ANY])
async def test_hardly_anything_is_collected_while_a_large_message_is_checked(topic: Topic) -> None:
    await stored(topic, LISTS)
    begun: list[str] = []

    def count(phase: str, _info: dict[str, int]) -> None:
        begun.append(phase)

    gc.callbacks.append(count)
    try:
        await stored(topic, LISTS)
    finally:
        gc.callbacks.remove(count)
    assert begun.count("start") <= 2


@pytest.mark.parametrize("topic", [AVRO, JSON])
async def test_a_usual_message_needs_no_thread(topic: Topic) -> None:
    assert await turns_beside(stored(topic, numbers(1_000))) == 0


async def test_a_small_message_that_is_costly_is_checked_beside_the_loop() -> None:
    assert await turns_beside(stored(COSTLY, tried(8))) > 0
    assert await turns_beside(stored(COSTLY, tried(1))) == 0


@pytest.mark.parametrize("topic", [AVRO, JSON])
async def test_what_is_wrong_with_a_large_message_is_said(topic: Topic) -> None:
    with pytest.raises(MessageInvalidError):
        await stored(topic, LARGE[:-1] + b',"x"]')


async def test_the_work_of_a_costly_message_is_that_of_its_request() -> None:
    work = RequestWork(0)
    before = work.left_ns
    await stored(COSTLY, tried(8), work)
    used = before - work.left_ns
    assert used > TURN_NS
    work.left_ns = used / 2
    with pytest.raises(ThroughputQuotaError):
        await stored(COSTLY, tried(8), work)


async def test_what_is_left_of_a_request_is_not_tried_again() -> None:
    work = RequestWork.of(TURN_NS / 2)

    async def refused() -> None:
        with pytest.raises(ThroughputQuotaError):
            await stored(COSTLY, tried(8), work)

    assert await turns_beside(refused()) == 0
    assert work.is_spent
