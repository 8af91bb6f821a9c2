"""Retransmissions: messages that one subscription gets again, beside new messages.

A request becomes a Spark job, which chooses the messages. A worker then appends them to their
topic, for this subscription only (`app.domain.targeted`), at a part of the subscription's rate. A
message is identified by its position in the log, and appended once for each retransmission.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple

from app.domain.catalogue.filters import Filter
from app.domain.commit import Progress
from app.domain.errors import ValidationFailedError
from app.domain.job import JobState
from app.domain.message import (
    HEADER_ID,
    HEADER_RECEIPT,
    HEADER_TARGET,
    HEADER_TIMESTAMP,
    Message,
    NewRecord,
    Partition,
    Record,
)
from app.domain.replay.coverage import Times
from app.domain.targeted import RecordTarget

SHARE_DEFAULT: Final = 0.5
SHARE_MIN: Final = 0.01
CHOSEN_MAX: Final = 1_000
SAMPLES_MAX: Final = 20
# The maximum number of offsets in one range of chosen messages.
RUN_MAX: Final = 1_000
# As many appended messages may be unfinished as the rate allows in this time (seconds). New
# messages may have to wait for so long. A cancelled retransmission may leave so many messages in
# the log.
AHEAD_S: Final = 2.0
# How many appended messages may always be unfinished, even with a low rate.
AHEAD_MIN: Final = 20
# The maximum size in bytes of archived bodies that wait to be sent again, over all retransmissions.
ARCHIVED_BYTES_MAX: Final = 8 * 1024**3
# How many cancelled retransmissions a subscription remembers. It skips their messages in the log.
CANCELLED_KEPT: Final = 16


class Only(StrEnum):
    """Which messages of the requested time are sent again.

    UNDELIVERED: messages that were discarded, and not sent again since then. MISSING: messages
    before the subscription's position that have no final entry in the traces.
    """

    ALL = "all"
    UNDELIVERED = "undelivered"
    MISSING = "missing"


class RetransmissionState(StrEnum):
    """The state of a retransmission; the last three are final.

    REQUESTED: waits for a Spark runner. READING: a runner chooses the messages. SENDING: the
    messages are appended and delivered.
    """

    REQUESTED = "REQUESTED"
    READING = "READING"
    SENDING = "SENDING"
    DONE = "DONE"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"


ENDED: Final = frozenset(
    {RetransmissionState.DONE, RetransmissionState.CANCELLED, RetransmissionState.FAILED}
)
_WHILE_CHOOSING: Final = {
    JobState.REQUESTED: RetransmissionState.REQUESTED,
    JobState.RUNNING: RetransmissionState.READING,
    # Do not show DONE yet: the end of the retransmission and the end of its job are stored
    # together.
    JobState.DONE: RetransmissionState.READING,
    JobState.CANCELLED: RetransmissionState.CANCELLED,
    JobState.FAILED: RetransmissionState.FAILED,
}


def state_of(stored: RetransmissionState, job: JobState) -> RetransmissionState:
    """Return the state of a retransmission, from its stored state and its job."""
    return _WHILE_CHOOSING[job] if stored is RetransmissionState.REQUESTED else stored


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Selects messages that match all given fields. None or an empty tuple selects all.

    Attributes:
        only: Whether all messages, undelivered or missing ones are selected.
        statuses: The possible last response statuses of undelivered messages.
        message_ids: The possible message ids.
        keys: The possible partition keys.
        filters: Filters that all must match.
        reason: A part of the reason why messages were discarded. The case of letters does not
            matter.
    """

    only: Only = Only.ALL
    statuses: tuple[int, ...] = ()
    message_ids: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    filters: tuple[Filter, ...] = ()
    reason: str | None = None

    def __post_init__(self) -> None:
        for path, of_discards in (("statusCodes", self.statuses), ("reason", self.reason)):
            if of_discards and self.only is not Only.UNDELIVERED:
                raise ValidationFailedError.of(path, "belongs to only: undelivered")
        for path, given in (("messageIds", self.message_ids), ("keys", self.keys)):
            if len(given) > CHOSEN_MAX:
                raise ValidationFailedError.of(path, f"must be at most {CHOSEN_MAX}")


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSpan:
    """A range of offsets in a partition of `topic`, from `start` to before `end`."""

    topic: str
    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request for a retransmission.

    Attributes:
        since: The start of the requested time. For undelivered messages it is the time of their
            discard.
        until: The end of that time.
        spans: The offsets of the messages. Undelivered messages are found by the time of their
            discard instead, because the log may no longer have them.
        selection: Which of these messages are sent again.
        share: The part of the subscription's rate at which they are sent, up to 1.
        dry_run: Whether messages are only chosen, and not sent.
        streams: The offsets of Angelia's own streams that the recorder must have stored before
            messages are chosen.
        ends: The next offset of each partition of the topic, at the time of the request.
        gone: For each of `spans`, how many requested offsets before it neither the log nor the
            archive had.
        times: The requested time, for the archived messages in `spans`. The offsets in the log were
            already found by time.
    """

    since: datetime
    until: datetime
    spans: tuple[OffsetSpan, ...]
    selection: Selection = Selection()
    share: float = SHARE_DEFAULT
    dry_run: bool = False
    streams: tuple[OffsetSpan, ...] = ()
    ends: tuple[int, ...] = ()
    gone: tuple[int, ...] = ()
    times: Times = field(default_factory=Times)

    def __post_init__(self) -> None:
        if not SHARE_MIN <= self.share <= 1:
            raise ValidationFailedError.of("share", f"must be {SHARE_MIN} to 1")
        if self.since >= self.until:
            raise ValidationFailedError.of("from", "must be before to")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The counts of messages in a retransmission.

    Attributes:
        matched: The chosen messages.
        archived: The chosen messages that are in the archive.
        gone: The offsets that neither the archive nor the log had. They may have been requested.
        untraced: Only for missing messages: the requested offsets that were not checked, because
            traces do not go back so far. None for other requests, and until it is known.
        size: The size of the chosen bodies in bytes.
        written: The messages that were appended to the topic.
        finished: The appended messages that the subscription has finished.
        discarded: The appended messages that the subscription has discarded again.
    """

    matched: int = 0
    archived: int = 0
    gone: int = 0
    untraced: int | None = None
    size: int = 0
    written: int = 0
    finished: int = 0
    discarded: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Retransmission:
    """The current state of a retransmission; its id is that of its job."""

    id: str
    subscription_id: str
    topic: str
    subscription: str
    request: Request
    state: RetransmissionState
    requested_at: datetime
    attempt: int = 0
    ended_at: datetime | None = None
    counts: Counts = Counts()
    samples: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRun:
    """Chosen messages that follow each other in a partition.

    Attributes:
        partition: The index of the partition.
        start: The offset of the first message.
        end: The offset after the last message.
        messages: The number of messages.
        size: The size of their bodies in bytes.
        undelivered: If the run is one undelivered message, the id of its row in the database. The
            message is read from there, because the log may no longer have it.
        archived: Whether the records are stored with the run, because they are from the archive.
    """

    partition: int
    start: int
    end: int
    messages: int
    size: int
    undelivered: int | None = None
    archived: bool = False


class Sent(NamedTuple):
    """One message of a retransmission: its old and its new position."""

    source_partition: int
    source_offset: int
    partition: int
    offset: int


def sent_again(
    record: Record, source: Partition, record_target: RecordTarget, *, now_ms: int
) -> NewRecord:
    """Return the record as it was published, but for one subscription only.

    The new record has the same message id and the current time, so the time since the first
    publication does not count for `publishTtl`. No publisher waits for its outcome.
    """
    ours = (HEADER_ID, HEADER_TIMESTAMP, HEADER_RECEIPT, HEADER_TARGET)
    headers = (
        # If another producer wrote the record, its id is made from the old position.
        (HEADER_ID, Message(record, source).id),
        (HEADER_TIMESTAMP, b"%d" % now_ms),
        *sent_from(source.index, record.offset, record_target),
        *((name, value) for name, value in record.headers if name not in ours),
    )
    return NewRecord(
        value=record.value or b"", key=record.key, headers=headers, timestamp_ms=now_ms
    )


# The old position of a retransmitted message, as `{partition}/{offset}`.
HEADER_SOURCE: Final = b"rs"


def sent_from(
    partition: int, offset: int, record_target: RecordTarget
) -> Sequence[tuple[bytes, bytes]]:
    """Return the headers that mark a message of a retransmission."""
    return (
        (HEADER_TARGET, record_target.header()),
        (HEADER_SOURCE, b"%d/%d" % (partition, offset)),
    )


def found_sent(record: Record, partition: int, record_target: RecordTarget) -> Sent | None:
    """Return the retransmitted message in the record; None for other records."""
    source = record.header(HEADER_SOURCE)
    if source is None or record.header(HEADER_TARGET) != record_target.header():
        return None
    source_partition, slash, source_offset = source.partition(b"/")
    if not (slash and source_partition.isdigit() and source_offset.isdigit()):
        return None
    return Sent(int(source_partition), int(source_offset), partition, record.offset)


def dropping(dropped: tuple[str, ...], retransmission_id: str) -> tuple[str, ...]:
    """Return the cancelled retransmissions with one more id, the newest CANCELLED_KEPT of them."""
    others = tuple(each for each in dropped if each != retransmission_id)
    return (*others, retransmission_id)[-CANCELLED_KEPT:]


def ahead_max(rate: int, share: float) -> int:
    """Return how many appended messages may be unfinished at the same time."""
    return max(AHEAD_MIN, int(rate * share * AHEAD_S))


def unfinished(offsets: Iterable[int], progress: Progress | None) -> list[int]:
    """Return the offsets that are not finished in a commit with this progress.

    `offsets` must be in order.
    """
    if progress is None:
        return list(offsets)
    ranges = progress.finished
    left, at = [], 0
    for offset in offsets:
        if offset < progress.offset:
            continue
        while at < len(ranges) and ranges[at][1] <= offset:
            at += 1
        if at == len(ranges) or offset < ranges[at][0]:
            left.append(offset)
    return left
