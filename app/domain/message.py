"""A message, its position in the log, and its headers there."""

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from app.domain.targeted import RecordTarget, target_of

# Headers of a log record. A propagated request header `X` is stored as `h-X`.
HEADER_ID: Final = b"id"
HEADER_TIMESTAMP: Final = b"ts"
HEADER_CONTENT_TYPE: Final = b"ct"
HEADER_PROPAGATED_PREFIX: Final = b"h-"
# The process that waits for the outcome (app.domain.runtime.receipt).
HEADER_RECEIPT: Final = b"w"
# The version of the topic's schema with which it is written, and the schema's id.
HEADER_SCHEMA_VERSION: Final = b"sv"
HEADER_SCHEMA_ID: Final = b"sid"
# The only subscription for which it is (app.domain.targeted).
HEADER_TARGET: Final = b"r"

# The value of `parsed` while the body was not needed as JSON.
UNPARSED: Final = object()


class Partition(NamedTuple):
    """One partition of a log topic, by its name without the namespace."""

    topic: str
    index: int  # type: ignore[assignment]  # hides tuple.index(), which nobody needs here


class Record:
    """A record from the log. It never changes after it is decoded.

    A plain slotted class: one is created for every message, and a frozen dataclass costs four times
    as much.
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
    """A record to append. Without `key` it goes to any partition; with one, always to the same.

    It never changes after it is created. It is not frozen, because one is created for every
    published message, and that would take four times as long.
    """

    value: bytes
    key: bytes | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()
    timestamp_ms: int | None = None


class Message:
    """A decoded record: read once, shared by all subscriptions of its topic.

    `content_type` and the propagated headers are as published. A record without a value has `body`
    None. `receipt` names the process that waits for the outcome, and `record_target` the only
    subscription for which it is. `parsed` is the body as JSON while it is needed, and `parsed_work`
    the cost of parsing (app.filtering.bodies).
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
            # A foreign producer's record: its id is the same for every reader.
            self.id = f"{partition.topic}/{partition.index}/{record.offset}".encode()

    @property
    def problem(self) -> str:
        """Why it has no body; empty if it has one."""
        return "malformed: the record has no value"

    @property
    def unreadable(self) -> bool:
        """Whether it has a value that cannot be decoded to a body."""
        return False

    @property
    def stored(self) -> bytes:
        """The bytes that are stored if it is not delivered."""
        return self.body or b""

    @property
    def raw(self) -> bytes:
        """The value as it is in the log."""
        return self.body or b""


class BrokenMessage(Message):
    """A record that an unexpected error kept from being decoded.

    It is discarded for that reason.
    """

    __slots__ = ("_problem", "_value")

    def __init__(self, record: Record, partition: Partition, problem: str) -> None:
        super().__init__(
            Record(record.offset, record.timestamp_ms, record.key, None, []), partition
        )
        self._problem = problem
        self._value = record.value or b""

    @property
    def problem(self) -> str:
        """Why it has no body."""
        return self._problem

    @property
    def unreadable(self) -> bool:
        """Return the same as `Message.unreadable`."""
        return True

    @property
    def stored(self) -> bytes:
        """Return the same as `Message.stored`."""
        return self._value

    @property
    def raw(self) -> bytes:
        """Return the same as `Message.raw`."""
        return self._value
