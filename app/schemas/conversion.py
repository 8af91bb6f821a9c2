"""Converts messages of one topic to the form of another topic, or returns why they are refused."""

from typing import NamedTuple

from app.domain.catalogue.schema import TopicSchema
from app.domain.catalogue.topic import Topic
from app.domain.errors import MessageInvalidError
from app.domain.message import (
    HEADER_CONTENT_TYPE,
    HEADER_ID,
    Message,
    NewRecord,
    Partition,
    Record,
)
from app.domain.replay.republishing import (
    HEADER_REPUBLISHED,
    PROBLEM_LENGTH_MAX,
    marker_of,
    republished,
)
from app.schemas.messages import AvroMessage, UnreadableError, reading
from app.schemas.publications import AVRO_BINARY, PLAIN_JSON, Given, Typed, typed


class RefusedValue(NamedTuple):
    """The reason why the target topic refuses a message's value."""

    problem: str


class Fitting:
    """Converts records for an offline retransmission from one topic to another.

    The two topics have the same content type.
    """

    def __init__(self, source: Topic, target: Topic, *, task_id: str) -> None:
        self._source = source
        self._target = target
        self._task_id = task_id
        self._message = reading(source)

    def fit(
        self, record: Record, partition: int, *, now_ms: int
    ) -> NewRecord | RefusedValue | None:
        """Return the record in the form of the target topic.

        The result is None if the record is targeted at one subscription.
        """
        message = self._message(record, Partition(self._source.name, partition))
        if message.record_target is not None:
            return None
        if record.value is None:
            return RefusedValue(message.problem)
        try:
            fitted = self._typed(message, record.value, now_ms)
        except (MessageInvalidError, UnreadableError) as exc:
            return RefusedValue(str(exc)[:PROBLEM_LENGTH_MAX])
        if (size := len(fitted.body)) > self._target.message_size_max:
            limit = self._target.message_size_max
            return RefusedValue(f"is of {size} bytes, and the limit is {limit}")
        own = self._own_headers(message, fitted, marker_of(self._task_id, partition, record.offset))
        return republished(record, fitted.body, own, now_ms=now_ms)

    def _typed(self, message: Message, value: bytes, now_ms: int) -> Typed:
        if isinstance(message, AvroMessage):
            return self._avro(message, now_ms)
        media = message.content_type.partition(b";")[0].strip().lower().decode("latin-1")
        return typed(self._target, _given(message, value, media, now_ms=now_ms))

    def _avro(self, message: AvroMessage, now_ms: int) -> Typed:
        """Return an Avro message in the form of the target topic.

        If the target topic has the same schema, the message stays the same. Otherwise the message
        is converted to JSON, and this JSON is published with the target's schema.
        """
        written = message.avro()
        known = _same(written.schema, self._target)
        if known is None:
            if message.unreadable:
                raise UnreadableError(message.problem)
            plain = _given(message, message.stored, PLAIN_JSON, now_ms=now_ms)
            return typed(self._target, plain)
        given = _given(message, written.body, AVRO_BINARY, now_ms=now_ms)
        return typed(self._target, given._replace(version=known.version))

    @staticmethod
    def _own_headers(
        message: Message, fitted: Typed, marker: bytes
    ) -> tuple[tuple[bytes, bytes], ...]:
        # Store the message id in a header. A foreign record may have no id, and then its id is made
        # from its position, which differs in the other topic.
        own = ((HEADER_ID, message.id), (HEADER_REPUBLISHED, marker), *fitted.headers)
        if fitted.content_type is None:
            return own
        return (*own, (HEADER_CONTENT_TYPE, fitted.content_type))


def _given(message: Message, body: bytes, media: str, *, now_ms: int) -> Given:
    # Convert the message id to valid UTF-8, because another producer may have made it, and Avro's
    # metadata has it as text.
    message_id = message.id.decode("utf-8", "replace").encode()
    return Given(
        body=body,
        media=media,
        message_id=message_id,
        now_ms=now_ms,
        propagated=tuple(message.propagated),
    )


def _same(schema: TopicSchema, topic: Topic) -> TopicSchema | None:
    """Return the topic's newest version that has the same text and may be used.

    The result is None if there is no such version.
    """
    fitting = (each for each in reversed(topic.schemas) if each.text == schema.text)
    return next((each for each in fitting if not each.retired), None)
