"""Republishing: what a topic had in a time, published once more (Hermes' offline retransmission).

All subscriptions of the target topic get the messages as new ones. Each is named by its place in
the source topic, and published once for each task: its record says, in a header, of which task it
is and where it was (`HEADER_REPUBLISHED`, as `{task id} {partition}/{offset}`).
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
# Of why a message was not taken, so much is kept.
PROBLEM_LENGTH_MAX: Final = 500

_MARKER: Final = re.compile(rb"([0-9a-f]{32}) ([0-9]{1,10})/([0-9]{1,19})")
# What the record of a message has anew, or not at all; else it keeps what it had.
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
    """What is asked for: the messages of `spans` from `since` to before `until`, for `target`.

    `gone`: so many offsets may be of that time, too, and neither the log nor the archive had them.
    A topic that was created anew since is another one.
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
        """The time, as messages have it."""
        return Times(since_ms=milliseconds(self.since), until_ms=milliseconds(self.until))


@dataclass(frozen=True, slots=True, kw_only=True)
class Republished:
    """How far it is: `share` (0 to 1) of the offsets are done with.

    `refused` were not taken by the target topic; `refusals` says why, of one in each partition.
    `size` is that of the bodies that were written, in bytes.
    """

    share: float = 0.0
    written: int = 0
    size: int = 0
    refused: int = 0
    refusals: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RepublishTask:
    """A task as it stands; its id is that of its job."""

    job: Job
    request: RepublishRequest
    done: Republished = Republished()

    @property
    def share(self) -> float:
        """How much of it is done, 0 to 1; there may have been nothing to do."""
        return 1.0 if self.job.state is JobState.DONE else self.done.share

    @property
    def gone(self) -> int:
        """Offsets that may be of that time, and that neither the log nor the archive had."""
        return self.job.result.counts.get("gone", self.request.gone)


def require_alike(source: Topic, target: Topic) -> None:
    """ValidationFailedError unless the target is of the source's kind of messages."""
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
    """The record as published now, with that body; `own` headers take the place of what it had.

    No age of before is held against it, and nobody waits to hear of it.
    """
    anew = _ANEW | {name for name, _ in own}
    kept = (each for each in record.headers if each[0] not in anew)
    headers = (*own, (HEADER_TIMESTAMP, b"%d" % now_ms), *kept)
    return NewRecord(value=value, key=record.key, headers=headers, timestamp_ms=now_ms)


def marker_of(task_id: str, partition: int, offset: int) -> bytes:
    """What says that a record is the task's, and where the message was."""
    return b"%s %d/%d" % (task_id.encode("ascii"), partition, offset)


def offset_marked(record: Record, task_id: str, partition: int) -> int | None:
    """Where in that partition of the source the record's message was.

    None: it is not of that task, or of that partition.
    """
    marked = record.header(HEADER_REPUBLISHED)
    found = None if marked is None else _MARKER.fullmatch(marked)
    if found is None:
        return None
    whose, index, offset = found.groups()
    if whose != task_id.encode("ascii") or int(index) != partition:
        return None
    return int(offset)
