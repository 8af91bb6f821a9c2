"""Republishing: messages of a past time are published again (Hermes' offline retransmission).

All subscriptions of the target topic get the messages as new messages. Each message is identified
by its position in the source topic, and published once for each task. A header of the new record
has the task and the position (`HEADER_REPUBLISHED`, as `{task id} {partition}/{offset}`).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from app.domain.catalogue.topic import Topic
from app.domain.errors import ValidationFailedError
from app.domain.job import WINDOW_MAX, Job, JobState
from app.domain.message import (
    HEADER_RECEIPT,
    HEADER_SCHEMA_ID,
    HEADER_SCHEMA_VERSION,
    HEADER_TARGET,
    HEADER_TIMESTAMP,
    NewRecord,
    Record,
)
from app.domain.replay.coverage import Times, milliseconds
from app.domain.replay.retransmission import HEADER_SOURCE, OffsetSpan

HEADER_REPUBLISHED: Final = b"rp"
# The maximum length of the reason that is stored when the target topic does not accept a message.
PROBLEM_LENGTH_MAX: Final = 500

_MARKER: Final = re.compile(rb"([0-9a-f]{32}) ([0-9]{1,10})/([0-9]{1,19})")
# The headers of the old record that the new record does not get. Some of them get a new value. All
# other headers stay.
_ANEW: Final = frozenset(
    {
        HEADER_TIMESTAMP,
        HEADER_RECEIPT,
        HEADER_TARGET,
        HEADER_SOURCE,
        HEADER_SCHEMA_VERSION,
        HEADER_SCHEMA_ID,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RepublishRequest:
    """A request to publish messages of one topic again, to the same or another topic.

    Attributes:
        source: The topic whose messages are published again.
        target: The topic to which they are published.
        since: The start of the time of their first publication.
        until: The end of that time.
        spans: The offsets of the messages.
        gone: How many offsets neither the log nor the archive had. The messages at these offsets
            may be from that time, too.
        source_created_at: When the source was created. If it is deleted and created again, it
            counts as another topic.
        target_created_at: When the target was created.
    """

    source: str
    target: str
    since: datetime
    until: datetime
    spans: tuple[OffsetSpan, ...] = ()
    gone: int = 0
    source_created_at: datetime | None = None
    target_created_at: datetime | None = None

    def __post_init__(self) -> None:
        if self.since >= self.until:
            raise ValidationFailedError.of("startTimestamp", "must be before endTimestamp")
        if self.until - self.since > WINDOW_MAX:
            message = f"must be at most {WINDOW_MAX.days} days before endTimestamp"
            raise ValidationFailedError.of("startTimestamp", message)

    @property
    def times(self) -> Times:
        """The requested time, in milliseconds."""
        return Times(since_ms=milliseconds(self.since), until_ms=milliseconds(self.until))


@dataclass(frozen=True, slots=True, kw_only=True)
class Republished:
    """The progress of a task.

    Attributes:
        share: The part of all offsets that is finished, from 0 to 1.
        written: The number of published messages.
        size: The size of their bodies in bytes.
        refused: The number of messages that the target topic did not accept.
        refusals: For each partition with such messages, the reason for one of them.
    """

    share: float = 0.0
    written: int = 0
    size: int = 0
    refused: int = 0
    refusals: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RepublishTask:
    """The current state of a task. The task and its job have the same id."""

    job: Job
    request: RepublishRequest
    done: Republished = Republished()

    @property
    def share(self) -> float:
        """The finished part of the task, from 0 to 1. A job that is DONE counts as 1."""
        return 1.0 if self.job.state is JobState.DONE else self.done.share

    @property
    def gone(self) -> int:
        """How many of the requested offsets neither the log nor the archive had."""
        return self.job.result.counts.get("gone", self.request.gone)


def require_alike(source: Topic, target: Topic) -> None:
    """Check that the target has the same kind of messages as the source.

    Raises:
        ValidationFailedError: The target has another kind of messages.
    """
    if target.content_type is not source.content_type:
        message = f"must be of contentType {source.content_type}, as sourceTopic is"
        raise ValidationFailedError.of("targetTopic", message)


def republished(
    record: Record,
    value: bytes,
    own: Sequence[tuple[bytes, bytes]],
    *,
    now_ms: int,
) -> NewRecord:
    """Return the record as if it were published now, with the given value as its body.

    The headers in `own` replace old headers of the same name. The new record gets the time
    `now_ms`, and no publisher waits for the outcome of the message.
    """
    anew = _ANEW | {name for name, _ in own}
    kept = (each for each in record.headers if each[0] not in anew)
    headers = (*own, (HEADER_TIMESTAMP, b"%d" % now_ms), *kept)
    return NewRecord(value=value, key=record.key, headers=headers, timestamp_ms=now_ms)


def marker_of(task_id: str, partition: int, offset: int) -> bytes:
    """Return the header value that names a record's task, and the position in the source topic."""
    return b"%s %d/%d" % (task_id.encode("ascii"), partition, offset)


def offset_marked(record: Record, task_id: str, partition: int) -> int | None:
    """Return the offset of the message in `partition` of the source topic, as a header names it.

    The result is None if the record is not from this task, or not from this partition.
    """
    marked = record.header(HEADER_REPUBLISHED)
    found = None if marked is None else _MARKER.fullmatch(marked)
    if found is None:
        return None
    owner, index, offset = found.groups()
    if owner != task_id.encode("ascii") or int(index) != partition:
        return None
    return int(offset)
