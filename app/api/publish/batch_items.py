"""Divides a batch into messages, with the exact bytes that the publisher sent (pure)."""

import re
from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import Final, NamedTuple

from app.api.errors import RequestRefusedError
from app.api.publish.cloudevents import BATCHED, STRUCTURED, event_of
from app.api.publish.headers import OWN_ID_RULE, is_own_id
from app.domain.errors import AngeliaError, FormatInvalidError, ValidationFailedError
from app.domain.json_text import members, skip_space, value_end
from app.schemas.json_bodies import json_body

JSON: Final = b"application/json"
EVENT: Final = STRUCTURED.encode()
_NOT_BLANK: Final = re.compile(rb"\S")
_ENVELOPE_MEMBERS: Final = frozenset({"id", "key", "message"})


class Form(Enum):
    """The format of the messages in a batch."""

    ARRAY = auto()
    LINES = auto()
    EVENTS = auto()


_FORMS: Final = {
    "application/json": Form.ARRAY,
    "application/x-ndjson": Form.LINES,
    "application/ndjson": Form.LINES,
    BATCHED: Form.EVENTS,
}


class BatchItem(NamedTuple):
    """One message of a batch.

    Without `id` the message gets a new one. Without `key` it has the key of the batch.

    `checked` means that the message was parsed as JSON.
    """

    body: bytes
    content_type: bytes = JSON
    id: bytes | None = None
    key: bytes | None = None
    checked: bool = False


Read = Callable[[bytes], BatchItem]


def form_of(media: str) -> Form:
    """Return the format of a media type.

    Raises:
        RequestRefusedError: The type is unknown (415).
    """
    if media not in _FORMS:
        message = f"Content-Type must be one of {', '.join(_FORMS)}, not {media or 'absent'}"
        raise RequestRefusedError(415, message)
    return _FORMS[media]


def items(body: bytes, form: Form, *, envelope: bool = False) -> Iterator[BatchItem | AngeliaError]:
    """Yield each message in order, or the error of an invalid one. Messages are parsed one by one.

    With `envelope`, each item is `{"message": …, "id": …, "key": …}`, and only `message` is stored.

    Raises:
        FormatInvalidError: The body as a whole cannot be parsed. This may come after some messages.
    """
    pieces = _lines(body) if form is Form.LINES else _elements(body)
    read = _enveloped if envelope else _READ[form]
    for piece in pieces:
        try:
            yield read(piece)
        except AngeliaError as error:
            yield error


def _event(raw: bytes) -> BatchItem:
    event = event_of(raw)
    return BatchItem(raw, EVENT, id=event.id, key=event.key, checked=True)


def _enveloped(raw: bytes) -> BatchItem:
    envelope = json_body(raw)
    if not isinstance(envelope, dict) or "message" not in envelope:
        raise FormatInvalidError('Each message must be an object: {"message": …}')
    if unknown := sorted(envelope.keys() - _ENVELOPE_MEMBERS):
        raise ValidationFailedError.of(unknown[0][:100], "is not one of id, key and message")
    return BatchItem(
        _message_in(raw),
        id=_id(envelope.get("id")),
        key=_key(envelope.get("key")),
        checked=True,
    )


def _message_in(raw: bytes) -> bytes:
    try:
        return members(raw.decode())["message"].encode()
    except ValueError as exc:
        raise FormatInvalidError(f"The message is not JSON: {exc}") from exc


def _id(given: object) -> bytes | None:
    if given is None:
        return None
    if not isinstance(given, str) or not is_own_id(given.encode()):
        raise ValidationFailedError.of("id", OWN_ID_RULE)
    return given.encode()


def _key(given: object) -> bytes | None:
    if given is not None and not isinstance(given, str):
        raise ValidationFailedError.of("key", "must be a string")
    return given.encode() if given else None


def _lines(body: bytes) -> Iterator[bytes]:
    """Yield the lines that are not blank, fast even for megabytes of blank lines."""
    end = 0
    while found := _NOT_BLANK.search(body, end):
        begin = body.rfind(b"\n", end, found.start()) + 1 or end
        end = body.find(b"\n", found.end())
        end = len(body) if end < 0 else end
        yield body[begin:end].removesuffix(b"\r")


def _elements(body: bytes) -> Iterator[bytes]:
    """Yield the elements of a JSON array as raw bytes."""
    text = _text(body)
    # If the text is ASCII, positions in the text are positions in the body. Then nothing must be
    # encoded again.
    same = body.isascii()
    at = _opened(text)
    if text[at : at + 1] == "]":
        _end(text, at)
        return
    while True:
        end = _value_end(text, at)
        yield body[at:end] if same else text[at:end].encode()
        at = skip_space(text, end)
        if text[at : at + 1] != ",":
            break
        at = skip_space(text, at + 1)
    _end(text, at)


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as exc:
        raise FormatInvalidError("The body is not JSON: it is not UTF-8") from exc


def _opened(text: str) -> int:
    at = skip_space(text, 0)
    if text[at : at + 1] != "[":
        raise FormatInvalidError("The body must be a JSON array of messages")
    return skip_space(text, at + 1)


def _end(text: str, at: int) -> None:
    if text[at : at + 1] != "]" or skip_space(text, at + 1) != len(text):
        raise FormatInvalidError(f"The body is not a JSON array: unexpected character {at}")


def _value_end(text: str, at: int) -> int:
    try:
        return value_end(text, at)
    except ValueError as exc:
        raise FormatInvalidError(f"The body is not JSON: {exc}") from exc


_READ: Final[dict[Form, Read]] = {Form.ARRAY: BatchItem, Form.LINES: BatchItem, Form.EVENTS: _event}
