"""Records of AVRO topics, as those who deliver and filter them see them."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import pytest

from app.domain.catalogue.filters import Filter, FilterType
from app.domain.catalogue.schema import ContentType, TopicSchema
from app.domain.catalogue.topic import Topic
from app.domain.message import Message, Partition, Record
from app.filtering.bodies import ParsedBodies
from app.filtering.matching import FilterChain
from app.schemas.avro import AvroCodec
from app.schemas.messages import AvroMessage, AvroTopic, KeptJson, UnreadableError, reading
from app.schemas.versions import first_schema

FIRST = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}'
SECOND = json.dumps(
    {
        "type": "record",
        "name": "R",
        "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "string", "default": "x"}],
    }
)
TOPIC = Topic(
    name="a.b",
    content_type=ContentType.AVRO,
    schemas=(
        TopicSchema(version=1, id=70, text=FIRST),
        TopicSchema(version=2, id=90, text=SECOND),
    ),
)
HERE = Partition("a.b", 0)


def avro(text: str, value: object) -> bytes:
    return AvroCodec(text).binary(value, wrapped=False, metadata={})


def message(value: bytes | None, **headers: bytes) -> AvroMessage:
    named = [(name.encode(), given) for name, given in headers.items()]
    return AvroTopic(TOPIC).message(Record(0, 0, None, value, named), HERE)


def seen(found: AvroMessage) -> tuple[bytes | None, bytes]:
    return found.body, found.content_type


def test_a_message_is_json_of_the_version_that_it_was_written_by() -> None:
    old = message(avro(FIRST, {"a": 1}), sv=b"1", sid=b"70", ct=b"avro/binary")
    new = message(avro(SECOND, {"a": 1}), sv=b"2", ct=b"avro/binary")
    assert seen(old) == (b'{"a":1}', b"application/json")
    assert seen(new) == (b'{"a":1,"b":"x"}', b"application/json")
    assert old.avro() == (avro(FIRST, {"a": 1}), TOPIC.schemas[0])


def test_foreign_records_are_of_the_version_in_their_prefix_or_of_the_newest() -> None:
    prefixed = message(b"\0" + (70).to_bytes(4) + avro(FIRST, {"a": 1}))
    bare = message(avro(SECOND, {"a": 2}))
    assert (prefixed.body, bare.body) == (b'{"a":1}', b'{"a":2,"b":"x"}')
    assert prefixed.avro().body == avro(FIRST, {"a": 1})


def test_a_version_of_another_registry_is_known_by_its_id() -> None:
    assert message(avro(FIRST, {"a": 1}), sv=b"2", sid=b"70").body == b'{"a":1}'


def test_a_record_that_is_json_stays_json_and_becomes_avro_for_who_wants_that() -> None:
    found = message(b'{"a": 3}', ct=b"application/json")
    assert seen(found) == (b'{"a": 3}', b"application/json")
    assert found.avro() == (avro(SECOND, {"a": 3}), TOPIC.schemas[1])
    with pytest.raises(UnreadableError, match="a is missing"):
        message(b"{}", ct=b"application/json").avro()


def test_json_cannot_become_avro_of_a_schema_that_newer_rules_refuse() -> None:
    huge = TopicSchema(version=3, id=1, text='{"type": "fixed", "name": "F", "size": 9000000}')
    record = Record(0, 0, None, b'"a"', [(b"ct", b"application/json")])
    found = AvroTopic(replace(TOPIC, schemas=(huge,))).message(record, HERE)
    with pytest.raises(UnreadableError, match="cannot be Avro of version 3: schema has a fixed"):
        found.avro()


@pytest.mark.parametrize(
    ("value", "version", "says"),
    [(b"\x80", b"1", "is not Avro of its schema"), (b"\x02", b"7", "version of its schema")],
)
def test_what_cannot_be_read_has_no_body_and_says_why(
    value: bytes, version: bytes, says: str
) -> None:
    found = message(value, sv=version, ct=b"avro/binary")
    assert (found.body, found.unreadable, found.stored) == (None, True, value)
    assert found.problem.startswith("malformed: ")
    assert says in found.problem
    assert found.content_type == b"avro/binary"
    with pytest.raises(UnreadableError, match=says):
        found.avro()


def test_a_record_without_a_value_is_no_message_in_any_form() -> None:
    found = message(None, sv=b"1")
    assert (found.body, found.unreadable, found.stored) == (None, False, b"")
    with pytest.raises(UnreadableError, match="no value"):
        found.avro()


def test_filters_look_at_the_json_and_never_drop_what_they_cannot_read() -> None:
    wanted = Filter(type=FilterType.JSONPATH, path="$.a", matcher="1")
    chain = FilterChain((wanted,), ParsedBodies())
    text = Filter(type=FilterType.CEL, expression="text.contains('1')")
    assert FilterChain((text,), ParsedBodies()).judge(message(b"\x80", sv=b"1")).wanted
    assert chain.judge(message(avro(FIRST, {"a": 1}), sv=b"1")).wanted
    assert not chain.judge(message(avro(FIRST, {"a": 2}), sv=b"1")).wanted
    assert chain.judge(message(b"\x80", sv=b"1")).wanted


def test_messages_of_other_topics_are_what_they_are() -> None:
    found = reading(Topic(name="a.b"))(Record(0, 0, None, b"\x80", []), HERE)
    assert type(found) is Message
    assert found.stored == b"\x80"


def test_a_prefix_of_the_registry_that_is_not_known_is_never_read_as_something_else() -> None:
    value = b"\0" + (4).to_bytes(4) + b"ab"
    foreign = Record(0, 0, None, value, [])
    assert not AvroTopic(TOPIC).knows(foreign)
    found = message(value)
    assert (found.body, found.problem) == (
        None,
        "malformed: the version of its schema is not known",
    )
    assert found.stored == value
    later = replace(TOPIC, schemas=(*TOPIC.schemas, TopicSchema(version=3, id=4, text=FIRST)))
    assert AvroTopic(later).knows(foreign)


def test_where_there_is_no_registry_a_prefix_may_be_the_beginning_of_a_message() -> None:
    own = replace(TOPIC, schemas=first_schema(ContentType.AVRO, '{"type":"array","items":"int"}'))
    record = Record(0, 0, None, b"\x00", [])
    assert AvroTopic(own).knows(record)
    text = replace(TOPIC, schemas=first_schema(ContentType.AVRO, NULLS))
    nulls = Record(0, 0, None, b"\0" * 6, [])
    assert AvroTopic(text).knows(nulls)
    assert AvroTopic(text).message(nulls, HERE).body is not None


MIGRATED: Final = replace(TOPIC, migrated_from_json=True)
PREFIXED: Final = b"\0" + (70).to_bytes(4) + avro(FIRST, {"a": 1})


@pytest.mark.parametrize(
    ("value", "headers", "is_now"),
    [
        (b'{"b": 1}', {"id": b"m", "ct": b"application/json"}, None),
        (b'{"b": 1}', {"id": b"m"}, None),
        (b"some text", {"id": b"m", "ct": b"text/plain"}, None),
        (b'{"b": 1}', {}, None),
        (b'{"b": 1}', {"ct": b"application/json; charset=utf-8"}, None),
        (PREFIXED, {}, b'{"a":1}'),
        (avro(SECOND, {"a": 2}), {}, b'{"a":2,"b":"x"}'),
        (avro(FIRST, {"a": 3}), {"id": b"m", "sv": b"1"}, b'{"a":3}'),
        (avro(SECOND, {"a": 4}), {"id": b"m", "ct": b"avro/binary"}, b'{"a":4,"b":"x"}'),
        (avro(SECOND, {"a": 5}), {"id": b"a.b/1/7", "r": b"", "rs": b"1/7"}, b'{"a":5,"b":"x"}'),
        (b"some text", {"id": b"m", "r": b"", "rs": b"1/7"}, None),
    ],
    ids=[
        *("published", "without a type", "text", "foreign JSON", "foreign and said"),
        *("prefixed", "bare", "versioned", "said to be Avro", "foreign, again", "text, again"),
    ],
)
def test_a_topic_that_was_json_has_messages_from_before_as_they_were(
    value: bytes, headers: Mapping[str, bytes], is_now: bytes | None
) -> None:
    record = Record(0, 0, None, value, [(name.encode(), each) for name, each in headers.items()])
    found = reading(MIGRATED)(record, HERE)
    if is_now is not None:
        assert (found.body, found.content_type) == (is_now, b"application/json")
        return
    plain = Message(record, HERE)
    assert (found.body, found.content_type) == (plain.body, plain.content_type)
    assert AvroTopic(MIGRATED).knows(record)


def test_json_schemas_from_before_are_none_of_avro() -> None:
    (kept,) = first_schema(ContentType.JSON, '{"type": "object"}')
    (new,) = first_schema(ContentType.AVRO, FIRST)
    new = replace(new, version=2)
    topic = replace(
        MIGRATED, schemas=(replace(kept, retired=True, kind=ContentType.JSON), new), partitions=1
    )
    # Else the ids were a registry's, and a zero byte the beginning of a prefix.
    assert AvroTopic(topic).knows(Record(0, 0, None, b"\0" * 6, []))
    assert not AvroTopic(topic).knows(Record(0, 0, None, b"\0", [(b"sv", b"1")]))
    assert reading(topic)(Record(0, 0, None, b"\x02", []), HERE).body == b'{"a":1}'


NULLS: Final = json.dumps(
    {
        "type": "record",
        "name": "N",
        "fields": [{"name": name, "type": ["null", "int"]} for name in "abcdef"],
    }
)


class Remembered:
    """Stands for a message that has its JSON until it forgets it."""

    has_json = True

    def forget(self) -> None:
        self.has_json = False


def test_large_json_of_few_bytes_is_kept_with_the_messages_that_were_read_last() -> None:
    kept = KeptJson(bytes_max=10_000)
    usual, *large = (Remembered() for _ in range(4))
    kept.keep(usual, 9_000, stored=8_000)
    for each in large:
        kept.keep(each, 4_000, stored=1)
    huge = Remembered()
    assert [each.has_json for each in (usual, *large)] == [True, False, True, True]
    kept.keep(huge, 20_000, stored=1)
    assert [each.has_json for each in (usual, *large, huge)] == [True, False, False, False, True]


def test_json_that_a_message_forgot_is_read_again() -> None:
    found = message(avro(FIRST, {"a": 1}), sv=b"1", sid=b"70", ct=b"avro/binary")
    before = found.body
    found.forget()
    assert found.body is not before
    assert found.body == before
