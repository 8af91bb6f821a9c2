"""Several messages in one request. A batch is a message that contains other messages."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid5

import orjson

from app.domain.catalogue.batching import BatchFormat, Batching
from app.domain.message import UNPARSED, Message, Record
from app.json_reading import is_json
from workers.delivery.events import BATCH_TYPE, event_of

_BATCHES: Final = UUID("0b6cf7a4-5c0f-4a51-9d0e-1c7c9b7a8e26")


class UnfitError(ValueError):
    """No batch of this format can contain the message. The error's text has the reason."""


class MessageBatch(Message):
    """Messages of one topic that are delivered together, each partition in its order.

    The same messages of a subscription always have the same batch id, so a subscriber recognises a
    repeated batch. The age of a batch is the age of its youngest message. The position of a batch
    is the position of its first message.
    """

    __slots__ = ("_subscription_id", "messages")

    def __init__(
        self,
        messages: Sequence[Message],
        body: bytes,
        *,
        content_type: bytes,
        subscription_id: str,
    ) -> None:
        first = messages[0]
        super().__init__(Record(first.offset, 0, None, body, []), first.partition)
        self._subscription_id = subscription_id
        self.content_type = content_type
        self.fill(messages, body)

    def fill(self, messages: Sequence[Message], body: bytes) -> None:
        """Fill the batch with these messages, encoded as `body`."""
        self.messages, self.body = messages, body
        self.offset, self.partition = messages[0].offset, messages[0].partition
        self.published_ms = max(message.published_ms for message in messages)
        positions = " ".join(
            f"{message.partition.index}/{message.offset}:{message.id.hex()}" for message in messages
        )
        named = f"{self._subscription_id} {self.partition.topic} {positions}"
        self.id = str(uuid5(_BATCHES, named)).encode("ascii")


class Framing(NamedTuple):
    """How messages become the body of a batch.

    Attributes:
        content_type: The content type of the body.
        opening: The bytes before the first message.
        between: The bytes between two messages.
        closing: The bytes after the last message.
        piece: Converts a message to its part of the body. It raises UnfitError if it cannot.
    """

    content_type: bytes
    opening: bytes
    between: bytes
    closing: bytes
    piece: Callable[[Message], bytes]

    @property
    def overhead(self) -> int:
        """The size in bytes of a body without messages."""
        return len(self.opening) + len(self.closing)

    def body(self, pieces: Iterable[bytes]) -> bytes:
        """Return the body that consists of these pieces, each of one message."""
        return self.opening + self.between.join(pieces) + self.closing


def json_of(message: Message) -> bytes:
    """Return the message's body as a JSON value.

    JSON is used unchanged; any other text becomes a JSON string. JSON that strict parsers refuse
    (lone surrogates, infinite numbers) becomes a string, too. As JSON, such a value would make the
    whole batch unreadable.

    Raises:
        UnfitError: The bytes are neither JSON nor text.
    """
    body = message.body
    if body is None:
        raise UnfitError(message.problem)
    if message.parsed is not UNPARSED or is_json(body):
        return body
    try:
        return orjson.dumps(body.decode("utf-8"))
    except UnicodeDecodeError as exc:
        raise UnfitError("cannot be in a batch: neither JSON nor UTF-8 text") from exc


def _line(message: Message) -> bytes:
    # Replace line breaks by spaces. JSON has line breaks only between tokens, where a space means
    # the same.
    return json_of(message).replace(b"\n", b" ").replace(b"\r", b" ")


def _wrapped(message: Message) -> bytes:
    metadata: dict[str, Any] = {
        "timestamp": message.published_ms,
        "id": message.id.decode("utf-8", "replace"),
        "externalMetadata": _external(message),
    }
    described = orjson.dumps(metadata)
    return b'{"_w":true,"metadata":%b,"message":%b}' % (described, json_of(message))


def _external(message: Message) -> dict[str, str]:
    """Return the propagated headers by name.

    If a header comes several times, its values are one list (RFC 9110, section 5.3).
    """
    names: dict[bytes, str] = {}
    values: dict[str, str] = {}
    for raw_name, raw_value in message.propagated:
        name = names.setdefault(raw_name.lower(), raw_name.decode("latin-1"))
        value = raw_value.decode("utf-8", "replace")
        values[name] = f"{values[name]}, {value}" if name in values else value
    return values


def _event(message: Message) -> bytes:
    if message.body is None:
        raise UnfitError(message.problem)
    return event_of(message)


_JSON: Final = b"application/json"
FRAMINGS: Final = {
    BatchFormat.WRAPPED: Framing(_JSON, b"[", b",", b"]", _wrapped),
    BatchFormat.PLAIN: Framing(_JSON, b"[", b",", b"]", json_of),
    BatchFormat.NDJSON: Framing(b"application/x-ndjson", b"", b"\n", b"\n", _line),
}
_EVENTS: Final = Framing(BATCH_TYPE, b"[", b",", b"]", _event)


def framing_of(batching: Batching) -> Framing:
    """Return the framing for batch bodies of this format."""
    return _EVENTS if batching.events else FRAMINGS[batching.format]
