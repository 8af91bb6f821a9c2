"""Redrives: which discarded messages are sent again, and the records for them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from app.domain.discards.undelivered import Undelivered
from app.domain.errors import ValidationFailedError
from app.domain.message import (
    HEADER_CONTENT_TYPE,
    HEADER_ID,
    HEADER_PROPAGATED_PREFIX,
    HEADER_TARGET,
    HEADER_TIMESTAMP,
    NewRecord,
)
from app.domain.targeted import RecordTarget

# The maximum number of messages that one redrive request sends.
REDRIVE_MESSAGES_MAX: Final = 1_000
# The maximum number of bytes that one redrive request sends.
REDRIVE_BYTES_MAX: Final = 16 * 1024 * 1024

_CONTENT_TYPE: Final = "content-type"


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveFilter:
    """Selects discards. A discard must match all fields; None and an empty tuple match everything.

    Attributes:
        since: The earliest time of the discard.
        until: The time before which the discard happened.
        reason: A text that the reason of the discard contains, in upper or lower case.
        statuses: The last response status is one of these.
        message_ids: The id of the message is one of these.
        again: Whether messages are selected, too, that were already sent again.
        key: The partition key of the message.
        text: A text that the body of the message contains.
    """

    since: datetime | None = None
    until: datetime | None = None
    reason: str | None = None
    statuses: tuple[int, ...] = ()
    message_ids: tuple[str, ...] = ()
    again: bool = False
    key: bytes | None = None
    text: bytes | None = None

    def __post_init__(self) -> None:
        if self.since and self.until and self.since >= self.until:
            raise ValidationFailedError.of("from", "must be before to")


@dataclass(frozen=True, slots=True, kw_only=True)
class Redrivable:
    """A discarded message that may be sent again. The object does not contain its body.

    `size` is the size of the body in bytes. `row` is the id of the discard's row in the database.
    """

    row: int
    message_id: str
    discarded_at: datetime
    reason: str
    status: int | None
    partition: int
    offset: int
    size: int


def redrive_record(
    undelivered: Undelivered, record_target: RecordTarget, *, now_ms: int
) -> NewRecord:
    """Return a record that sends a discarded message again, to one subscription only.

    The message is the same as when it was published. The time of the record is the current time. So
    the time since the first publication does not count for `publishTtl`.
    """
    content_type = b""
    propagated = []
    for name, value in undelivered.headers:
        if not content_type and name.lower() == _CONTENT_TYPE:
            content_type = value.encode("latin-1", "replace")
        else:
            pair = (name.encode("latin-1", "replace"), value.encode("latin-1", "replace"))
            propagated.append(pair)
    headers = [
        (HEADER_ID, undelivered.message_id.encode()),
        (HEADER_TIMESTAMP, b"%d" % now_ms),
        (HEADER_TARGET, record_target.header()),
    ]
    if content_type:
        headers.append((HEADER_CONTENT_TYPE, content_type))
    headers += ((HEADER_PROPAGATED_PREFIX + name, value) for name, value in propagated)
    return NewRecord(
        value=undelivered.body, key=undelivered.key, headers=tuple(headers), timestamp_ms=now_ms
    )
