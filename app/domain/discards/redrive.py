"""Redrives of discarded messages: selection, and records."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from app.domain.discards.undelivered import Undelivered
from app.domain.message import (
    HEADER_CONTENT_TYPE,
    HEADER_ID,
    HEADER_PROPAGATED_PREFIX,
    HEADER_TARGET,
    HEADER_TIMESTAMP,
    NewRecord,
)
from app.domain.targeted import RecordTarget

# The maximum number of messages in one redrive request.
REDRIVE_MESSAGES_MAX: Final = 1_000
# The maximum number of bytes in one redrive request.
REDRIVE_BYTES_MAX: Final = 16 * 1024 * 1024

_CONTENT_TYPE: Final = "content-type"


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveFilter:
    """Selects discards: `since` is inclusive, `until` is not.

    `reason` is a part of the discard's reason, upper or lower case, and `text` a part of the body.
    `key` is the whole partition key. An empty tuple means all.
    Discards that were already sent again match only with `again`.
    """

    since: datetime | None = None
    until: datetime | None = None
    reason: str | None = None
    statuses: tuple[int, ...] = ()
    message_ids: tuple[str, ...] = ()
    again: bool = False
    key: bytes | None = None
    text: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Redrivable:
    """A message that may be sent again, without its body, whose size is `size` bytes.

    `row` is the row of its discard in the database.
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
    """Return a record of the message as it was published, for one subscription only.

    The record has the current time, so that the message's earlier age does not count.
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
