"""Messages of AVRO topics: as JSON, and as the bytes of Avro.

The headers `sv` and `sid` of a record have the version and the id of its schema. A record without
these headers is from a producer other than Angelia. If it has the prefix of Confluent's registry (a
zero byte, and the id of its schema in four bytes), the prefix names its schema. Otherwise its
schema is the latest version. A record whose content type is JSON is JSON. If ids come from a
registry, a record with the prefix of an unknown schema cannot be read.

A topic that became AVRO has older messages in JSON: messages of Angelia without `sv`, and foreign
messages that are JSON. The older messages are read as JSON.
"""

import re
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

import orjson

from app.domain.catalogue.schema import ContentType, TopicSchema
from app.domain.catalogue.topic import Topic
from app.domain.errors import ValidationFailedError
from app.domain.message import (
    HEADER_CONTENT_TYPE,
    HEADER_ID,
    HEADER_SCHEMA_ID,
    HEADER_SCHEMA_VERSION,
    Message,
    Partition,
    Record,
)
from app.domain.replay.retransmission import HEADER_SOURCE
from app.json_reading import is_json, read_json
from app.schemas.compiled import avro_codec
from app.schemas.problems import AvroError, MismatchError
from app.schemas.versions import is_registered

AVRO: Final = b"avro/binary"
JSON: Final = b"application/json"

# Confluent's prefix: a zero byte, and the id of the schema.
PREFIX_LENGTH: Final = 5
_PREFIX: Final = b"\0"
# The form of ids and versions. A longer number is no id and no version, and Python would refuse to
# parse a very long number.
_NUMBER: Final = re.compile(rb"[0-9]{1,10}")
_VERSION: Final = re.compile(rb"[1-9][0-9]{0,9}")
# How far a version that is not known yet may be above the newest known version. Versions are
# counted up by one.
VERSIONS_AHEAD_MAX: Final = 20
_UNREAD: Final = object()
# The maximum size of all JSON that is kept. Only messages that are much larger as JSON than as Avro
# are counted. The JSON of all other messages is limited by the size of their Avro.
KEPT_BYTES_MAX: Final = 32 << 20
_FREE_BYTES: Final = 1_024
_FREE_RATIO: Final = 4


class UnreadableError(ValueError):
    """The message cannot be converted to the requested form. The error's text has the reason."""


class Written(NamedTuple):
    """The bytes of a message in Avro, and the version of its schema."""

    body: bytes
    schema: TopicSchema


class Readable(Protocol):
    """A message with JSON that can be dropped, and made again."""

    def forget(self) -> None:
        """Drop the message's JSON."""


class KeptJson:
    """Limits the memory for large JSON. If it is full, the oldest messages drop their JSON."""

    def __init__(self, *, bytes_max: int = KEPT_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._kept: deque[tuple[Readable, int]] = deque()
        self._bytes = 0

    def keep(self, message: Readable, size: int, *, stored: int) -> None:
        """Remember that `message` has JSON of `size` bytes, made from `stored` bytes."""
        if size <= _FREE_BYTES + _FREE_RATIO * stored:
            return
        self._kept.append((message, size))
        self._bytes += size
        # The last message keeps its JSON, because this JSON is in use.
        while self._bytes > self._bytes_max and len(self._kept) > 1:
            dropped, size = self._kept.popleft()
            dropped.forget()
            self._bytes -= size


kept_json: Final = KeptJson()


class AvroTopic:
    """The schemas of one AVRO topic, which decode its records."""

    def __init__(self, topic: Topic) -> None:
        own = [each for each in topic.schemas if each.kind is None]
        self._versions = {b"%d" % each.version: each for each in own}
        self._ids = {each.id: each for each in own}
        self._newest = max((each.version for each in topic.schemas), default=0)
        self.is_registered = is_registered(topic)
        self.was_json = topic.migrated_from_json
        self._name = topic.name
        self.latest = own[-1] if own else None

    def knows(self, record: Record) -> bool:
        """Whether this process has the schema that the record names, or the record names none."""
        version = record.header(HEADER_SCHEMA_VERSION)
        if version is not None:
            return self._named(version, record) is not None
        return not (self.is_avro(record) and self._is_unknown(prefix_id(record.value or b"")))

    def may_get(self, version: bytes) -> bool:
        """Whether a version with this number may exist although this process does not know it."""
        return is_version(version) and int(version) <= self._newest + VERSIONS_AHEAD_MAX

    def is_avro(self, record: Record) -> bool:
        """Whether the record is Avro. Otherwise it is read like a record of a JSON topic."""
        if record.header(HEADER_SCHEMA_VERSION) is not None:
            return True
        given = record.header(HEADER_CONTENT_TYPE)
        media = None if given is None else given.partition(b";")[0].strip().lower()
        if media == JSON:
            return False
        return not self.was_json or media == AVRO or not self._is_from_before(record)

    def _is_from_before(self, record: Record) -> bool:
        """Whether a record that names no schema is from the time when its topic was JSON."""
        # Avro records of Angelia always name their schema. So a record of Angelia without a schema
        # is from before. A foreign record is from before if it is JSON.
        return was_published_here(record, self._name) or is_json(record.value or b"")

    def message(self, record: Record, partition: Partition) -> "AvroMessage":
        """Return the record as a message, which is decoded when its body is needed."""
        return AvroMessage(record, partition, self)

    def written(self, record: Record) -> tuple[bytes, TopicSchema | None]:
        """Return the Avro bytes in the record, and their schema; None if the schema is unknown."""
        body = record.value or b""
        version = record.header(HEADER_SCHEMA_VERSION)
        if version is not None:
            return body, self._named(version, record)
        number = prefix_id(body)
        if self._is_unknown(number):
            # The schema is unknown. No other schema is returned, because with another schema the
            # bytes would be misread.
            return body, None
        found = None if number is None else self._ids.get(number)
        return (body[PREFIX_LENGTH:], found) if found else (body, self.latest)

    def _is_unknown(self, number: int | None) -> bool:
        """Whether `number`, from a record's prefix, is the id of a schema that is unknown here."""
        return number is not None and self.is_registered and number not in self._ids

    def _named(self, version: bytes, record: Record) -> TopicSchema | None:
        found = self._versions.get(version)
        given = record.header(HEADER_SCHEMA_ID)
        if given is None or (found is not None and b"%d" % found.id == given):
            return found
        # The record was written with another registry, whose versions have other numbers. So only
        # the id of the schema counts.
        return self._ids.get(int(given)) if _NUMBER.fullmatch(given) else found


class AvroMessage(Message):
    """A message of an AVRO topic. Its `body` is JSON, which is made when it is needed.

    If the message cannot be read, `body` is None, and `problem` has the reason.
    """

    __slots__ = ("_json", "_problem", "_schemas", "_stored", "_written")

    def __init__(self, record: Record, partition: Partition, schemas: AvroTopic) -> None:
        self._stored: bytes | None = None
        self._json: Any = _UNREAD
        self._problem = super().problem
        self._schemas = schemas
        super().__init__(record, partition)
        # The Avro bytes of the message and their schema. None if the record is JSON.
        self._written: tuple[bytes, TopicSchema | None] | None = None
        if schemas.is_avro(record):
            self._written = schemas.written(record)
            self.content_type = JSON

    @property
    def body(self) -> bytes | None:
        """The message as JSON; None if it cannot be read."""
        if self._json is _UNREAD:
            self._json = self._read()
        found: bytes | None = self._json
        return found

    @body.setter
    def body(self, value: bytes | None) -> None:
        self._stored = value

    @property
    def problem(self) -> str:
        """The reason why the message has no body."""
        return self._problem

    @property
    def unreadable(self) -> bool:
        """Whether the message has a value that cannot be read."""
        return self.body is None and self._stored is not None

    @property
    def stored(self) -> bytes:
        """The body, or the raw bytes if the message cannot be read."""
        body = self.body
        return (self._stored or b"") if body is None else body

    @property
    def raw(self) -> bytes:
        """The message's value as it is in the log."""
        return self._stored or b""

    @property
    def schema(self) -> TopicSchema | None:
        """The schema of the message; None if it is unknown."""
        return self._schemas.latest if self._written is None else self._written[1]

    @property
    def may_stay_json(self) -> bool:
        """Whether the message is JSON in the log, from the time before its topic became AVRO."""
        return self._written is None and self._stored is not None and self._schemas.was_json

    def avro(self) -> Written:
        """Return the message in Avro.

        Raises:
            UnreadableError: The message cannot be read.
        """
        if self._stored is None:
            raise UnreadableError(super().problem)
        if self._written is None:
            return self._encoded(self._stored)
        body, schema = self._written
        if schema is None or (self._json is None):
            raise UnreadableError(self._problem if schema else _UNKNOWN)
        return Written(body, schema)

    def _read(self) -> bytes | None:
        if self._stored is None:
            return None
        if self._written is None:
            return self._stored
        body, schema = self._written
        if schema is None:
            return self._unreadable(_UNKNOWN)
        try:
            found = avro_codec(schema.text).json(body)
        except (AvroError, ValidationFailedError) as exc:
            return self._unreadable(f"malformed: {exc}")
        kept_json.keep(self, len(found), stored=len(body))
        return found

    def forget(self) -> None:
        """Drop the JSON of the message from memory. It is made again when it is needed."""
        self._json = _UNREAD

    def _unreadable(self, problem: str) -> bytes | None:
        self._problem = problem
        self.content_type = AVRO
        return None

    def _encoded(self, stored: bytes) -> Written:
        latest = self._schemas.latest
        if latest is None:
            raise UnreadableError("the topic has no schema")
        try:
            value = read_json(stored)
            codec = avro_codec(latest.text)
            metadata = {"messageId": self.id.decode("utf-8", "replace")}
            body = codec.binary(value, wrapped=False, metadata=metadata, size=len(stored))
            return Written(body, latest)
        except orjson.JSONDecodeError as exc:
            raise UnreadableError(f"malformed: neither Avro nor JSON: {exc}") from exc
        except MismatchError as exc:
            reported = exc.reported()
            problem = (
                f"cannot be Avro of version {latest.version}: {reported.path} {reported.message}"
            )
            raise UnreadableError(problem) from exc
        except ValidationFailedError as exc:
            raise UnreadableError(f"cannot be Avro of version {latest.version}: {exc}") from exc


_UNKNOWN: Final = "malformed: the version of its schema is not known"


Reading = Callable[[Record, Partition], Message]


def reading(topic: Topic) -> Reading:
    """Return a function that makes messages from the topic's records."""
    return AvroTopic(topic).message if topic.content_type is ContentType.AVRO else Message


def was_published_here(record: Record, topic: str) -> bool:
    """Whether the record was published through Angelia. Its id shows this."""
    given, source = record.header(HEADER_ID), record.header(HEADER_SOURCE)
    if given is None or source is None:
        return given is not None
    return given != b"%b/%b" % (topic.encode(), source)


def is_version(named: bytes) -> bool:
    """Whether the value of a header has the form of a version's number."""
    return _VERSION.fullmatch(named) is not None


def prefix_id(body: bytes) -> int | None:
    """Return the schema id in the prefix of Confluent's registry; None if there is no prefix."""
    if len(body) < PREFIX_LENGTH or body[:1] != _PREFIX:
        return None
    return int.from_bytes(body[1:PREFIX_LENGTH])
