"""The schema that a message is stored with; and schemas that were stored under older rules."""

import json

import pytest

from app.domain.catalogue.schema import ContentType, TopicSchema
from app.domain.catalogue.topic import Topic
from app.domain.errors import ValidationFailedError
from app.domain.message import HEADER_SCHEMA_VERSION
from app.schemas.publications import AVRO_BINARY, PLAIN_JSON, Given, typed
from app.schemas.versions import with_schema

HUGE = json.dumps({"type": "fixed", "name": "F", "size": 10**18})
BACKTRACKING = json.dumps({"pattern": "(a)\\1"})


def topic_of(kind: ContentType, text: str) -> Topic:
    schema = TopicSchema(version=3, id=1, text=text)
    return Topic(name="shop.orders", content_type=kind, schemas=(schema,))


@pytest.mark.parametrize(
    ("kind", "text", "media"),
    [
        (ContentType.JSON, BACKTRACKING, PLAIN_JSON),
        (ContentType.AVRO, HUGE, PLAIN_JSON),
        (ContentType.AVRO, HUGE, AVRO_BINARY),
    ],
)
def test_publishers_are_told_that_the_schema_is_to_be_changed(
    kind: ContentType, text: str, media: str
) -> None:
    given = Given(body=b'"a"', media=media, message_id=b"m-1", now_ms=1)
    says = r"schema of the topic \(version 3\) cannot be used any more: its owners must change it"
    with pytest.raises(ValidationFailedError, match=says):
        typed(topic_of(kind, text), given)


@pytest.mark.parametrize(
    ("kind", "text", "new"),
    [(ContentType.JSON, BACKTRACKING, "{}"), (ContentType.AVRO, HUGE, '"long"')],
)
def test_owners_can_replace_a_schema_that_cannot_be_used(
    kind: ContentType, text: str, new: str
) -> None:
    found = with_schema(topic_of(kind, text), new)
    assert [(each.version, each.text) for each in found.schemas] == [(3, text), (4, new)]


FIVE = json.dumps(
    {
        "type": "record",
        "name": "Five",
        "fields": [{"name": name, "type": "int"} for name in "abcde"],
    }
)


@pytest.mark.parametrize(
    ("version", "schema_id", "stored_with"), [(None, None, b"1"), (2, None, b"2"), (None, 8, b"2")]
)
def test_who_names_a_schema_sends_no_prefix_though_the_message_looks_so(
    version: int | None, schema_id: int | None, stored_with: bytes
) -> None:
    schemas = (
        TopicSchema(version=1, id=1, text='{"type": "record", "name": "Empty", "fields": []}'),
        TopicSchema(version=2, id=8, text=FIVE),
    )
    topic = Topic(name="shop.orders", content_type=ContentType.AVRO, schemas=schemas)
    given = Given(
        # Five numbers, or the prefix of the schema 1.
        body=b"\x00\x00\x00\x00\x01",
        media=AVRO_BINARY,
        message_id=b"m-1",
        now_ms=1,
        version=version,
        id=schema_id,
    )
    assert dict(typed(topic, given).headers)[HEADER_SCHEMA_VERSION] == stored_with
