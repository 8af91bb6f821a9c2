"""What subscriptions get of messages of AVRO topics."""

from dataclasses import replace

import pytest

from app.domain.catalogue.schema import ContentType, TopicSchema
from app.domain.catalogue.subscription import Subscription
from app.domain.catalogue.topic import Topic
from app.domain.message import Message, Partition, Record
from app.schemas.messages import AvroMessage, AvroTopic, UnreadableError
from workers.delivery.shapes import shape_of

TOPIC = Topic(
    name="a.b",
    content_type=ContentType.AVRO,
    schemas=(TopicSchema(version=3, id=70, text='"int"'),),
)
HERE = Partition("a.b", 0)


def subscription(content_type: ContentType) -> Subscription:
    return Subscription(
        id="1", topic="a.b", name="s", endpoint="http://h.test/", content_type=content_type
    )


def message(value: bytes) -> AvroMessage:
    headers = [(b"id", b"m-1"), (b"sv", b"3"), (b"h-X-Tenant", b"acme")]
    return AvroTopic(TOPIC).message(Record(0, 0, None, value, headers), HERE)


def test_avro_is_sent_as_it_is_with_its_version_and_its_id() -> None:
    shape = shape_of(subscription(ContentType.AVRO))
    assert shape is not None
    outgoing, body = shape(message(b"\x0e"))
    assert (outgoing.id, outgoing.content_type, body) == (b"m-1", b"avro/binary", b"\x0e")
    assert outgoing.propagated == [
        (b"Schema-Version", b"3"),
        (b"Schema-Id", b"70"),
        (b"X-Tenant", b"acme"),
    ]


def test_json_is_the_message_and_needs_no_shape() -> None:
    assert shape_of(subscription(ContentType.JSON)) is None
    assert message(b"\x0e").body == b"7"


def of_migrated_topic(value: bytes, topic: Topic, *headers: tuple[bytes, bytes]) -> AvroMessage:
    return AvroTopic(topic).message(Record(0, 0, None, value, [(b"id", b"m-1"), *headers]), HERE)


def test_json_from_before_becomes_avro_where_it_fits_and_else_is_sent_as_it_is() -> None:
    shape = shape_of(subscription(ContentType.AVRO))
    assert shape is not None
    topic = replace(TOPIC, migrated_from_json=True)
    assert shape(of_migrated_topic(b"7", topic))[1] == b"\x0e"
    headers = [(b"ct", b"text/plain"), (b"h-X-Tenant", b"acme")]
    outgoing, body = shape(of_migrated_topic(b"seven", topic, *headers))
    assert (outgoing.content_type, body) == (b"text/plain", b"seven")
    assert outgoing.propagated == [(b"X-Tenant", b"acme")]
    with pytest.raises(UnreadableError):
        shape(of_migrated_topic(b"seven", TOPIC, (b"ct", b"application/json")))
    with pytest.raises(UnreadableError):
        shape(of_migrated_topic(b"seven", topic, (b"sv", b"9")))


def test_what_was_read_before_its_topic_became_avro_is_sent_as_it_is() -> None:
    shape = shape_of(subscription(ContentType.AVRO))
    assert shape is not None
    outgoing, body = shape(Message(Record(0, 0, None, b"{}", []), HERE))
    assert (outgoing.content_type, body) == (b"application/json", b"{}")
