"""A message, its place in the log, and the headers it carries there."""

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from app.domain.targeted import RecordTarget, target_of

# Headers of a log record. A propagated request header `X` travels as `h-X`.
HEADER_ID: Final = b"id"
HEADER_TIMESTAMP: Final = b"ts"
HEADER_CONTENT_TYPE: Final = b"ct"
HEADER_PROPAGATED_PREFIX: Final = b"h-"
# Who waits to hear what became of it (app.domain.runtime.receipt).
HEADER_RECEIPT: Final = b"w"
# The version of the topic's schema that it is written by, and the id of that schema.
HEADER_SCHEMA_VERSION: Final = b"sv"
HEADER_SCHEMA_ID: Final = b"sid"
# Which subscription alone it is for (app.domain.targeted).
HEADER_TARGET: Final = b"r"

# The `parsed` of a message whose body nobody has needed as JSON so far.
UNPARSED: Final = object()


class Partition(NamedTuple):
    """One partition of a log topic, by its name without the namespace."""

    topic: str
    index: int  # type: ignore[assignment]  # hides tuple.index(), which nobody needs here


class Record:
    """One record as read from the log: mutable only in name; nothing changes it once it is decoded.

    A plain slotted class: one is built for every message read, and a frozen dataclass costs four
    times as much.
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
        """The first header of that name."""
        for key, value in self.headers:
            if key == name:
                return value
        return None


@dataclass(slots=True, kw_only=True)
class NewRecord:
    """A record to append. Without `key` it goes to any partition; with one, always to the same.

    Nothing changes it once it is made. It is not frozen because one is made for every message that
    is published, and that would take four times as long.
    """

    value: bytes
    key: bytes | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()
    timestamp_ms: int | None = None


class Message:
    """A record as the delivery line sees it: read once, shared by all subscriptions of its topic.

    `content_type` and the propagated headers are as published. A record without a value has
    `body` None. `receipt` names who waits to hear what became of it, and `record_target` the only
    subscription that it is for. `parsed` is the body as JSON while somebody keeps it, and
    `parsed_work` what that costs (app.filtering.bodies).
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
            # A foreign producer's record: the same id whoever reads it, and however often.
            self.id = f"{partition.topic}/{partition.index}/{record.offset}".encode()

    @property
    def problem(self) -> str:
        """Why it has no body, when it has none."""
        return "malformed: the record has no value"

    @property
    def unreadable(self) -> bool:
        """Whether it has a value of which no body can be made."""
        return False

    @property
    def stored(self) -> bytes:
        """What is kept of it when it is not delivered."""
        return self.body or b""

    @property
    def raw(self) -> bytes:
        """Its value as the log has it."""
        return self.body or b""


class BrokenMessage(Message):
    """A record that a defect of ours kept from being read: it is discarded for that reason."""

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
        """As `Message.unreadable`."""
        return True

    @property
    def stored(self) -> bytes:
        """As `Message.stored`."""
        return self._value

    @property
    def raw(self) -> bytes:
        """As `Message.raw`."""
        return self._value
