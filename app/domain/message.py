"""A message, its position in the log, and its headers there."""

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from app.domain.targeted import RecordTarget, target_of

# The names of the headers that Angelia adds to a log record. A propagated request header `X` is
# stored as `h-X`.
HEADER_ID: Final = b"id"
HEADER_TIMESTAMP: Final = b"ts"
HEADER_CONTENT_TYPE: Final = b"ct"
HEADER_PROPAGATED_PREFIX: Final = b"h-"
# The header that names the process that waits for the outcome of the message
# (app.domain.runtime.receipt).
HEADER_RECEIPT: Final = b"w"
# The header with the version of the schema with which the body was written.
HEADER_SCHEMA_VERSION: Final = b"sv"
# The header with the id of the schema version with which the body was written.
HEADER_SCHEMA_ID: Final = b"sid"
# The header that names the only subscription for which the message is (app.domain.targeted).
HEADER_TARGET: Final = b"r"

# The value of `Message.parsed` before the body is parsed.
UNPARSED: Final = object()


class Partition(NamedTuple):
    """One partition of a topic in the log. The topic's name is without the namespace."""

    topic: str
    index: int  # type: ignore[assignment]  # hides tuple.index(), which nobody needs here


class Record:
    """A record from the log. It never changes after it is decoded.

    One object is created for every message. This is a plain class with slots, because creating an
    object of a frozen dataclass would take four times as long.
    """

    __slots__ = ("headers", "key", "offset", "timestamp_ms", "value")

    def __init__(
        self,
        offset: int,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[bytes, bytes]],
    ) -> None:
        self.offset = offset
        self.timestamp_ms = timestamp_ms
        self.key = key
        self.value = value
        self.headers = headers

    def header(self, name: bytes) -> bytes | None:
        """Return the first header with that name."""
        for key, value in self.headers:
            if key == name:
                return value
        return None


@dataclass(slots=True, kw_only=True)
class NewRecord:
    """A record to append. Records with the same key go to the same partition.

    A record without a key goes to any partition. A record never changes after it is created. One
    object is created for every published message. The class is not frozen, because creating a
    frozen object would take four times as long.
    """

    value: bytes
    key: bytes | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()
    timestamp_ms: int | None = None


class Message:
    """A decoded record: read once, shared by all subscriptions of its topic.

    Attributes:
        body: The body; None if the record has no value, or if the value cannot be decoded.
        content_type: The content type that the publisher sent.
        propagated: The publisher's headers that subscribers get.
        receipt: Names the process that waits for the outcome; None if nobody waits.
        record_target: The only subscription for which the message is; None if it is for all.
        parsed: The value of the body as JSON, stored only while filters need it.
        parsed_work: The work that parsing the body takes (app.filtering.bodies).
    """

    __slots__ = (
        "body",
        "content_type",
        "id",
        "key",
        "offset",
        "parsed",
        "parsed_work",
        "partition",
        "propagated",
        "published_ms",
        "receipt",
        "record_target",
    )

    parsed_work: int

    def __init__(self, record: Record, partition: Partition) -> None:
        self.partition = partition
        self.offset = record.offset
        self.key = record.key
        self.body = record.value
        self.parsed: Any = UNPARSED
        self.id = b""
        self.content_type = b"application/json"
        self.published_ms = record.timestamp_ms
        self.propagated: list[tuple[bytes, bytes]] = []
        self.receipt: bytes | None = None
        self.record_target: RecordTarget | None = None
        for name, value in record.headers:
            if name == HEADER_ID:
                self.id = value
            elif name == HEADER_CONTENT_TYPE:
                self.content_type = value
            elif name.startswith(HEADER_PROPAGATED_PREFIX):
                self.propagated.append((name[len(HEADER_PROPAGATED_PREFIX) :], value))
            elif name == HEADER_RECEIPT:
                self.receipt = value
            elif name == HEADER_TARGET:
                self.record_target = target_of(value)
        if not self.id:
            # The record was written by another producer, and has no id. Make an id from the
            # position of the record, so that every reader makes the same id.
            self.id = f"{partition.topic}/{partition.index}/{record.offset}".encode()

    @property
    def problem(self) -> str:
        """The reason why the message has no body. Use it only if `body` is None."""
        return "malformed: the record has no value"

    @property
    def unreadable(self) -> bool:
        """Whether the message has a value that cannot be decoded to a body."""
        return False

    @property
    def stored(self) -> bytes:
        """The bytes that are stored if the message becomes undelivered."""
        return self.body or b""

    @property
    def raw(self) -> bytes:
        """The message's value as it is in the log."""
        return self.body or b""


class BrokenMessage(Message):
    """A record that could not be decoded because of an unexpected error. It is discarded."""

    __slots__ = ("_problem", "_value")

    def __init__(self, record: Record, partition: Partition, problem: str) -> None:
        super().__init__(
            Record(record.offset, record.timestamp_ms, record.key, None, []), partition
        )
        self._problem = problem
        self._value = record.value or b""

    @property
    def problem(self) -> str:
        """The reason why the message has no body."""
        return self._problem

    @property
    def unreadable(self) -> bool:
        """Whether the message has a value that cannot be decoded to a body."""
        return True

    @property
    def stored(self) -> bytes:
        """The bytes that are stored if the message becomes undelivered."""
        return self._value

    @property
    def raw(self) -> bytes:
        """The message's value as it is in the log."""
        return self._value
