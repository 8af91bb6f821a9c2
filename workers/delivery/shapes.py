"""Converts messages for subscriptions that do not get messages unchanged."""

from app.domain.catalogue.schema import ContentType
from app.domain.catalogue.subscription import Subscription
from app.domain.message import Message
from app.schemas.messages import AVRO, AvroMessage, UnreadableError
from workers.delivery.events import SHAPES, Outgoing, Shape


def shape_of(subscription: Subscription) -> Shape | None:
    """Return the conversion for the subscription's messages. None if they are not converted.

    The conversion raises UnreadableError for a message that it cannot convert.
    """
    if subscription.content_type is ContentType.AVRO:
        return avro
    return SHAPES[subscription.content_mode]


def avro(message: Message) -> tuple[Outgoing, bytes]:
    """Return the message in Avro, with the version and the id of its schema (as in Hermes).

    A message that was published when the topic was still JSON is sent unchanged in two cases: if
    the schema does not fit the message, or if it was read before the topic became AVRO.
    """
    if not isinstance(message, AvroMessage):
        return _as_it_is(message)
    try:
        body, schema = message.avro()
    except UnreadableError:
        if message.may_stay_json:
            return _as_it_is(message)
        raise
    schema_headers = [
        (b"Schema-Version", b"%d" % schema.version),
        (b"Schema-Id", b"%d" % schema.id),
    ]
    return Outgoing(message.id, AVRO, [*schema_headers, *message.propagated]), body


def _as_it_is(message: Message) -> tuple[Outgoing, bytes]:
    return Outgoing(message.id, message.content_type, message.propagated), message.body or b""
