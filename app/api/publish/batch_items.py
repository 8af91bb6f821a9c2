"""Divides a batch into messages, with the exact bytes that the publisher sent."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from enum import Enum, auto
from typing import Final, NamedTuple

import orjson

from app.api.errors import RequestRefusedError
from app.api.publish.cloudevents import BATCHED, STRUCTURED, event_of
from app.api.publish.headers import OWN_ID_RULE, is_own_id
from app.domain.errors import AngeliaError, FormatInvalidError, ValidationFailedError
from app.schemas.json_bodies import check_json_body
from app.schemas.json_cursor import JsonCursor, JsonTextError

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

    If `id` is None, the message gets a new id. If `key` is None, the message has the key of the
    whole batch.

    `checked` means that the message was parsed as JSON.
    """

    body: bytes
    content_type: bytes = JSON
    id: bytes | None = None
    key: bytes | None = None
    checked: bool = False


Read = Callable[[bytes], Awaitable[BatchItem]]


def form_of(media: str) -> Form:
    """Return the format of a media type.

    Raises:
        RequestRefusedError: The type is unknown (415).
    """
    if media not in _FORMS:
        message = f"Content-Type must be one of {', '.join(_FORMS)}, not {media or 'absent'}"
        raise RequestRefusedError(415, message)
    return _FORMS[media]


async def items(
    body: bytes, form: Form, *, envelope: bool = False
) -> AsyncIterator[BatchItem | AngeliaError]:
    """Yield each message in order, or the error of an invalid message.

    Messages are parsed one by one. With `envelope`, each item is
    `{"message": …, "id": …, "key": …}`, and only `message` is stored. While a large message is
    parsed, the process also handles other requests.

    Raises:
        FormatInvalidError: The body as a whole cannot be parsed. Some messages may have been
            yielded before.
    """
    read = _enveloped if envelope else _READ[form]
    async for piece in _lines(body) if form is Form.LINES else _elements(body):
        yield await _read_or_error(read, piece)


async def _read_or_error(read: Read, piece: bytes) -> BatchItem | AngeliaError:
    try:
        return await read(piece)
    except AngeliaError as error:
        return error


async def _plain(raw: bytes) -> BatchItem:
    return BatchItem(raw)


async def _event(raw: bytes) -> BatchItem:
    event = await event_of(raw)
    return BatchItem(raw, EVENT, id=event.id, key=event.key, checked=True)


async def _enveloped(raw: bytes) -> BatchItem:
    await check_json_body(raw)
    envelope = await _texts(raw)
    if envelope is None or "message" not in envelope:
        raise FormatInvalidError('Each message must be an object: {"message": …}')
    if unknown := sorted(envelope.keys() - _ENVELOPE_MEMBERS):
        raise ValidationFailedError.of(unknown[0][:100], "is not one of id, key and message")
    return BatchItem(
        envelope["message"],
        id=_id(_read_text(envelope.get("id", b"null"))),
        key=_key(_read_text(envelope.get("key", b"null"))),
        checked=True,
    )


async def _texts(raw: bytes) -> dict[str, bytes] | None:
    """Return the members of a JSON object, each with its unchanged bytes; None for other JSON."""
    cursor = JsonCursor(raw)
    if not await cursor.passes("{"):
        return None
    found: dict[str, bytes] = {}
    try:
        while await cursor.next() == '"':
            name = orjson.loads(await cursor.value())
            await cursor.passes(":")
            found[name] = await cursor.value()
            await cursor.passes(",")
    except JsonTextError as exc:
        raise FormatInvalidError(f"The message is not JSON: {exc}") from exc
    return found


def _read_text(raw: bytes) -> object:
    """Return the value of a JSON string or null. For other JSON, return its bytes unparsed."""
    return orjson.loads(raw) if raw[:1] in {b'"', b"n"} else raw


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


async def _lines(body: bytes) -> AsyncIterator[bytes]:
    """Yield the lines that are not blank. This is fast even for megabytes of blank lines."""
    end = 0
    while found := _NOT_BLANK.search(body, end):
        begin = body.rfind(b"\n", end, found.start()) + 1 or end
        end = body.find(b"\n", found.end())
        end = len(body) if end < 0 else end
        yield body[begin:end].removesuffix(b"\r")


async def _elements(body: bytes) -> AsyncIterator[bytes]:
    """Yield the elements of a JSON array as raw bytes."""
    cursor = JsonCursor(body)
    try:
        if not await cursor.passes("["):
            raise FormatInvalidError("The body must be a JSON array of messages")
        is_last = await cursor.next() == "]"
        while not is_last:
            yield await cursor.value()
            is_last = not await cursor.passes(",")
        if not await cursor.passes("]") or await cursor.next():
            raise cursor.wrong("unexpected character")
    except JsonTextError as exc:
        raise FormatInvalidError(f"The body is not JSON: {exc}") from exc


_READ: Final[dict[Form, Read]] = {Form.ARRAY: _plain, Form.LINES: _plain, Form.EVENTS: _event}
