"""Messages as CloudEvents 1.0 in binary and structured mode (HTTP binding, JSON format; pure).

A message that was published as an event is delivered as the same event. In binary mode the
attributes of the event are headers. In structured mode the body is the whole event. A message that
was not published as an event keeps the attributes that its publisher has set, and the missing
attributes are made from the message.
"""

import base64
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from functools import lru_cache
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote

import orjson

from app.domain.catalogue.subscription import ContentMode
from app.domain.json_text import members
from app.domain.message import UNPARSED, Message
from app.json_reading import is_json, read_json

STRUCTURED_TYPE: Final = b"application/cloudevents+json"
BATCH_TYPE: Final = b"application/cloudevents-batch+json"

Header = tuple[bytes, bytes]
Attributes = dict[str, Any]

_PREFIX: Final = b"ce-"
_NAME: Final = re.compile(r"[a-z0-9]+")
_DATA: Final = frozenset({"data", "data_base64"})
# The characters that are not quoted in a header: all printable ones except the space, '"' and '%'
# (HTTP binding, 3.1.3.2).
_UNQUOTED: Final = "!#$&'()*+,-./:;<=>?@[\\]^_`{|}~"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Outgoing:
    """The parts of a message from which the headers of its requests are made."""

    __slots__ = ("content_type", "id", "propagated")

    def __init__(self, message_id: bytes, content_type: bytes, propagated: list[Header]) -> None:
        self.id = message_id
        self.content_type = content_type
        self.propagated = propagated


Shape = Callable[[Message], tuple[Outgoing, bytes]]


class _Data(Enum):
    """The ways to write the data of an event. The content type decides which one is used."""

    JSON = auto()
    TEXT = auto()
    BYTES = auto()
    EVENT = auto()


class _Event(NamedTuple):
    """A parsed event. If it has no `content_type`, its data is JSON."""

    attributes: Mapping[str, Any]
    content_type: str | None
    data: bytes


def binary(message: Message) -> tuple[Outgoing, bytes]:
    """Return the event with its data as the body and its attributes as headers."""
    others = _others(message)
    event = _taken_apart(message) if _kind(message.content_type) is _Data.EVENT else None
    if event is not None:
        propagated = [*others, *_as_headers(event.attributes)]
        content_type = (event.content_type or "application/json").encode("utf-8", "replace")
        return Outgoing(message.id, content_type, propagated), event.data
    kept = [pair for pair in message.propagated if pair[1] and _attribute(pair[0])]
    named = {_attribute(name) for name, _ in kept}
    made = {name: value for name, value in _made(message).items() if name not in named}
    propagated = [*others, *kept, *_as_headers(made)]
    return Outgoing(message.id, message.content_type, propagated), message.body or b""


def structured(message: Message) -> tuple[Outgoing, bytes]:
    """Return the whole event as the body. The headers contain no attributes of the event."""
    return Outgoing(message.id, STRUCTURED_TYPE, _others(message)), event_of(message)


def event_of(message: Message) -> bytes:
    """Return the message as an event in JSON.

    If the body is JSON data, or already an event, its bytes are not changed.
    """
    body = message.body or b""
    kind = _kind(message.content_type)
    if kind is _Data.EVENT and body.lstrip()[:1] == b"{" and _is_json(message):
        return body
    attributes = _made(message) | dict(_given(message))
    attributes.pop("datacontenttype", None)
    if message.content_type:
        attributes["datacontenttype"] = message.content_type.decode("latin-1")
    member = _data_member(message, kind) if body else b""
    return orjson.dumps(attributes)[:-1] + member + b"}"


SHAPES: Final[Mapping[ContentMode, Shape | None]] = {
    ContentMode.PLAIN: None,
    ContentMode.CE_BINARY: binary,
    ContentMode.CE_STRUCTURED: structured,
}


def _made(message: Message) -> Attributes:
    """Return CloudEvents attributes for a message that was not published as an event."""
    attributes: Attributes = {
        "specversion": "1.0",
        "id": message.id.decode("utf-8", "replace"),
        **_of_topic(message.partition.topic),
    }
    if time := _time(message.published_ms):
        attributes["time"] = time
    if message.key:
        attributes["partitionkey"] = message.key.decode("utf-8", "replace")
    return attributes


@lru_cache(maxsize=1024)
def _of_topic(topic: str) -> Mapping[str, str]:
    return {"source": f"/topics/{topic}", "type": topic}


def _time(published_ms: int) -> str | None:
    try:
        time = _EPOCH + timedelta(milliseconds=published_ms)
    except OverflowError:
        return None  # return None: a producer has set an impossible time
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _given(message: Message) -> Iterator[tuple[str, str]]:
    """Yield the event's attributes that came as headers.

    The last header comes first. So in a dictionary, the first one of repeated headers counts.
    """
    for name, value in reversed(message.propagated):
        if value and (attribute := _attribute(name)):
            yield attribute, unquote(value.decode("utf-8", "replace"))


def _others(message: Message) -> list[Header]:
    return [pair for pair in message.propagated if not _attribute(pair[0])]


@lru_cache(maxsize=1024)
def _attribute(header: bytes) -> str | None:
    """Return the name of the event attribute in this header; None if it has no attribute."""
    lower = header.lower()
    if not lower.startswith(_PREFIX):
        return None
    name = lower[len(_PREFIX) :].decode("latin-1")
    return name if _NAME.fullmatch(name) and name not in _DATA else None


def _data_member(message: Message, kind: _Data) -> bytes:
    body = message.body or b""
    if kind is _Data.JSON and _is_json(message):
        return b',"data":' + body
    if kind is _Data.TEXT:
        try:
            return b',"data":' + orjson.dumps(body.decode("utf-8"))
        except UnicodeDecodeError:
            pass
    return b',"data_base64":"' + base64.b64encode(body) + b'"'


def _is_json(message: Message) -> bool:
    return message.parsed is not UNPARSED or is_json(message.body or b"")


@lru_cache(maxsize=1024)
def _kind(content_type: bytes | str) -> _Data:
    text = content_type.decode("latin-1") if isinstance(content_type, bytes) else content_type
    media = text.partition(";")[0].strip().lower()
    if media.encode("latin-1", "replace") == STRUCTURED_TYPE:
        return _Data.EVENT
    if media.endswith(("/json", "+json")):
        return _Data.JSON
    is_text = media.startswith("text/") or media.endswith(("/xml", "+xml"))
    return _Data.TEXT if is_text else _Data.BYTES


def _taken_apart(message: Message) -> _Event | None:
    """Return the event in the body; None if the body is no event."""
    try:
        event = read_json(message.body or b"")
        if not isinstance(event, dict):
            return None
        content_type = event.pop("datacontenttype", None)
        content_type = content_type if isinstance(content_type, str) else None
        data = _data_of(event, content_type, message.body or b"")
    except ValueError:
        return None
    return _Event({n: v for n, v in event.items() if n not in _DATA}, content_type, data)


def _data_of(event: Mapping[str, Any], content_type: str | None, body: bytes) -> bytes:
    """Return the data of the event as bytes.

    Raises:
        ValueError: The data is not valid base64, or not valid text.
    """
    encoded, data = event.get("data_base64"), event.get("data")
    if isinstance(encoded, str):
        return base64.b64decode(encoded, validate=True)
    if isinstance(data, str) and content_type is not None and _kind(content_type) is not _Data.JSON:
        return data.encode()
    return members(body.decode())["data"].encode() if "data" in event else b""


def _as_headers(attributes: Mapping[str, Any]) -> Iterator[Header]:
    for name, value in attributes.items():
        if not _NAME.fullmatch(name):
            continue
        if isinstance(value, bool):
            yield _PREFIX + name.encode(), b"true" if value else b"false"
        elif isinstance(value, str | int):
            yield _PREFIX + name.encode(), quote(str(value), safe=_UNQUOTED).encode()
