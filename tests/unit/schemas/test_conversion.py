"""Messages of one topic as another one stores them."""

import json
from dataclasses import replace

import pytest

from app.domain.catalogue.schema import ContentType, TopicSchema
from app.domain.catalogue.topic import Topic
from app.domain.message import HEADER_TARGET, NewRecord, Record
from app.domain.replay.republishing import HEADER_REPUBLISHED
from app.domain.targeted import RecordTarget
from app.schemas.avro import AvroCodec
from app.schemas.conversion import Fitting, RefusedValue

TASK = "a" * 32
PLAIN = Topic(name="shop.orders")
NUMBERS = json.dumps({"type": "object", "properties": {"n": {"type": "integer"}}})
NARROW = Topic(name="shop.narrow", schemas=(TopicSchema(version=1, id=5, text=NUMBERS),))
SMALL = Topic(name="shop.small", message_size_max=1024)
INT = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}'
TEXT = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}]}'
LONG = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}'


def avro_topic(name: str, *texts: str) -> Topic:
    schemas = tuple(
        TopicSchema(version=number, id=number * 10, text=text)
        for number, text in enumerate(texts, start=1)
    )
    return Topic(name=name, content_type=ContentType.AVRO, schemas=schemas)


def written(text: str, value: object) -> bytes:
    return AvroCodec(text).binary(value, wrapped=False, metadata={})


def fitted(
    source: Topic, target: Topic, value: bytes | None, *headers: tuple[bytes, bytes]
) -> NewRecord | RefusedValue | None:
    record = Record(7, 1, b"k", value, list(headers))
    return Fitting(source, target, task_id=TASK).fit(record, 3, now_ms=9)


def taken(found: NewRecord | RefusedValue | None) -> tuple[bytes, dict[bytes, bytes]]:
    assert isinstance(found, NewRecord)
    assert len(dict(found.headers)) == len(found.headers)
    return found.value, dict(found.headers)


def test_a_message_keeps_its_id_and_says_where_it_was() -> None:
    value, headers = taken(fitted(PLAIN, PLAIN, b"1", (b"id", b"m"), (b"h-A", b"x")))
    marker = TASK.encode() + b" 3/7"
    assert value == b"1"
    assert headers == {b"id": b"m", b"ts": b"9", b"h-A": b"x", HEADER_REPUBLISHED: marker}


def test_a_foreign_record_is_known_by_the_place_that_it_had() -> None:
    _, headers = taken(fitted(PLAIN, SMALL, b"1"))
    assert headers[b"id"] == b"shop.orders/3/7"


def test_what_was_for_one_subscription_alone_is_nobodys() -> None:
    alone = (HEADER_TARGET, RecordTarget("b" * 32, "c" * 32).header())
    assert fitted(PLAIN, SMALL, b"1", alone) is None


@pytest.mark.parametrize(
    ("target", "value", "why"),
    [
        (SMALL, b"1" * 1025, "is of 1025 bytes, and the limit is 1024"),
        (NARROW, b'{"n": "one"}', "n "),
        (NARROW, b"{", "is not JSON"),
        (PLAIN, None, "has no value"),
    ],
)
def test_what_the_target_does_not_take_is_refused_with_the_reason(
    target: Topic, value: bytes | None, why: str
) -> None:
    found = fitted(PLAIN, target, value)
    assert isinstance(found, RefusedValue)
    assert why in found.problem


def test_what_the_schema_of_the_target_asks_for_is_taken() -> None:
    assert taken(fitted(PLAIN, NARROW, b'{"n": 1}'))[0] == b'{"n": 1}'
    assert taken(fitted(PLAIN, SMALL, b"1" * 1024))[0] == b"1" * 1024


def test_avro_of_the_same_schema_is_the_same_by_the_number_that_it_has_there() -> None:
    source, target = avro_topic("a.b", INT), avro_topic("a.c", TEXT, INT)
    old = ((b"sv", b"1"), (b"sid", b"10"), (b"ct", b"avro/binary"))
    value, headers = taken(fitted(source, target, written(INT, {"a": 1}), *old))
    assert value == written(INT, {"a": 1})
    assert (headers[b"sv"], headers[b"sid"], headers[b"ct"]) == (b"2", b"20", b"avro/binary")


def test_avro_of_another_schema_is_written_by_that_of_the_target_or_refused() -> None:
    source, old = avro_topic("a.b", INT), ((b"sv", b"1"), (b"ct", b"avro/binary"))
    value, headers = taken(fitted(source, avro_topic("a.c", LONG), written(INT, {"a": 1}), *old))
    assert (value, headers[b"sv"]) == (written(LONG, {"a": 1}), b"1")
    refused = fitted(source, avro_topic("a.c", TEXT), written(INT, {"a": 1}), *old)
    assert isinstance(refused, RefusedValue)
    assert "a " in refused.problem
    unreadable = fitted(source, avro_topic("a.c", LONG), b"", *old)
    assert isinstance(unreadable, RefusedValue)
    assert "malformed" in unreadable.problem


def test_nothing_is_written_by_a_schema_that_is_retired() -> None:
    source, retired = avro_topic("a.b", INT), avro_topic("a.c", INT, LONG)
    retired = replace(
        retired, schemas=(replace(retired.schemas[0], retired=True), retired.schemas[1])
    )
    found = fitted(source, retired, written(INT, {"a": 1}), (b"sv", b"1"))
    assert taken(found)[1][b"sv"] == b"2"
