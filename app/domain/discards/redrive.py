"""Sending discarded messages again: which ones, and as what records."""

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

# What one request for a redrive sends at most.
REDRIVE_MESSAGES_MAX: Final = 1_000
REDRIVE_BYTES_MAX: Final = 16 * 1024 * 1024

_CONTENT_TYPE: Final = "content-type"


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveFilter:
    """Which discards: `since` inclusive, `until` not; `reason` is a part of it, in either case.

    An empty tuple stands for all. Those that were sent again before only with `again`.
    """

    since: datetime | None = None
    until: datetime | None = None
    reason: str | None = None
    statuses: tuple[int, ...] = ()
    message_ids: tuple[str, ...] = ()
    again: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Redrivable:
    """A message that may be sent again, without what is sent: its body has `size` bytes.

    `row` is that of its discard.
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
    """The message as it was published, for its subscription alone.

    Its time is now: it was asked for again, so no age of before is held against it.
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
