"""What subscriptions get of messages of AVRO topics."""

import pytest

from app.domain.message import Message, Partition, Record
from app.domain.schema import ContentType, TopicSchema
from app.domain.subscription import Subscription
from app.domain.topic import Topic
from app.schemata.messages import AvroMessage, AvroTopic, UnreadableError
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


def test_what_is_no_avro_has_no_such_shape() -> None:
    shape = shape_of(subscription(ContentType.AVRO))
    assert shape is not None
    with pytest.raises(UnreadableError, match="no Avro"):
        shape(Message(Record(0, 0, None, b"{}", []), HERE))
