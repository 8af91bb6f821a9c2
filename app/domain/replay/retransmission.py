"""Retransmissions: messages that one subscription gets again, beside new messages.

A request becomes a Spark job, which chooses the messages. A worker then appends the chosen messages
to their topic again, for this subscription only (`app.domain.targeted`). The worker uses only a
part of the subscription's rate. A message is identified by its position in the log, and appended
once for each retransmission.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple

from app.domain.catalogue.filters import Filter
from app.domain.catalogue.subscription import RATE_MAX
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
# The lowest rate that may be requested, in messages per second. It is what the smallest share of
# the lowest rate of a subscription allows.
RATE_MIN: Final = 0.01
CHOSEN_MAX: Final = 1_000
SAMPLES_MAX: Final = 20
# The maximum number of offsets in one range of chosen messages (`MessageRun`).
RUN_MAX: Final = 1_000
# The maximum number of appended and unfinished messages is what the rate allows in this time
# (seconds), but at least AHEAD_MIN. New messages may have to wait for all of these messages, and a
# cancelled retransmission may leave all of them in the log.
AHEAD_S: Final = 2.0
# This number of appended and unfinished messages is always allowed, even if the rate is low.
AHEAD_MIN: Final = 20
# The maximum size, in bytes, of all stored message bodies that retransmissions have read from
# archives and not yet appended.
ARCHIVED_BYTES_MAX: Final = 8 * 1024**3
# How many cancelled retransmissions a subscription remembers. The subscription skips the messages
# of these retransmissions in the log.
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
    """The state of a retransmission. DONE, CANCELLED and FAILED are final.

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
    # Do not show DONE here: when the job ends, the next state of the retransmission is stored
    # together with the end of the job.
    JobState.DONE: RetransmissionState.READING,
    JobState.CANCELLED: RetransmissionState.CANCELLED,
    JobState.FAILED: RetransmissionState.FAILED,
}


def state_of(stored: RetransmissionState, job: JobState) -> RetransmissionState:
    """Return the state of a retransmission, from its stored state and its job."""
    return _WHILE_CHOOSING[job] if stored is RetransmissionState.REQUESTED else stored


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Selects the messages that match all fields. An empty field or None matches all messages.

    Attributes:
        only: Whether all messages are selected, or only undelivered or missing ones.
        statuses: The possible last response statuses of undelivered messages.
        message_ids: The possible message ids.
        keys: The possible partition keys.
        filters: Filters, all of which must match.
        reason: A text that the reason of the discard contains. The case of letters does not matter.
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
        since: The start of the requested time. For undelivered messages, the time of the discard
            counts.
        until: The end of that time.
        spans: The offsets of the messages. Not used for undelivered messages, which are found by
            the time of their discard, because the log may no longer have them.
        selection: Which of these messages are sent again.
        share: The part of the subscription's rate at which messages are sent, at most 1.
        rate: How many messages are sent per second, at most. None means that only `share` limits
            them.
        dry_run: Whether messages are only chosen, and not sent.
        streams: The offsets of Angelia's own streams that the recorder must have stored before
            messages are chosen.
        ends: The end of each partition of the topic, at the time of the request.
        gone: One number for each range in `spans`: how many requested offsets before this range
            neither the log nor the archive had.
        times: The requested time, with which archived messages in `spans` are selected. For
            messages in the log this is not needed: their offsets were found by this time.
    """

    since: datetime
    until: datetime
    spans: tuple[OffsetSpan, ...]
    selection: Selection = Selection()
    share: float = SHARE_DEFAULT
    rate: float | None = None
    dry_run: bool = False
    streams: tuple[OffsetSpan, ...] = ()
    ends: tuple[int, ...] = ()
    gone: tuple[int, ...] = ()
    times: Times = field(default_factory=Times)

    def __post_init__(self) -> None:
        if not SHARE_MIN <= self.share <= 1:
            raise ValidationFailedError.of("share", f"must be {SHARE_MIN} to 1")
        if self.rate is not None and not RATE_MIN <= self.rate <= RATE_MAX:
            raise ValidationFailedError.of("rate", f"must be {RATE_MIN} to {RATE_MAX}")
        if self.since >= self.until:
            raise ValidationFailedError.of("from", "must be before to")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The counts of messages in a retransmission.

    Attributes:
        matched: The chosen messages.
        archived: The chosen messages that are in the archive.
        gone: The offsets that neither the archive nor the log had. Their messages may belong to the
            requested ones.
        untraced: Only for a request for missing messages: the requested offsets that are older than
            all traces, and so were not checked. None for other requests, and while the number is
            unknown.
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
    """The current state of a retransmission. The retransmission and its job have the same id."""

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
    """A range of chosen messages, which follow each other in a partition.

    Attributes:
        partition: The index of the partition.
        start: The offset of the first message.
        end: The offset after the last message.
        messages: The number of messages.
        size: The size of their bodies in bytes.
        undelivered: If the range is a single undelivered message, the id of the database row with
            the message. The message is read from this row, because the log may no longer have it.
        archived: Whether the messages are from the archive. Then their records are stored together
            with the range.
    """

    partition: int
    start: int
    end: int
    messages: int
    size: int
    undelivered: int | None = None
    archived: bool = False


class Sent(NamedTuple):
    """One message of a retransmission: the position of the original, and its new position."""

    source_partition: int
    source_offset: int
    partition: int
    offset: int


def sent_again(
    record: Record, source: Partition, record_target: RecordTarget, *, now_ms: int
) -> NewRecord:
    """Return the record as it was published, but for one subscription only.

    The new record has the same message id, but the current time, so the time since the first
    publication does not count for `publishTtl`. No publisher waits for the outcome.
    """
    ours = (HEADER_ID, HEADER_TIMESTAMP, HEADER_RECEIPT, HEADER_TARGET)
    headers = (
        # Keep the id of the message. If another producer wrote the old record, the id is made from
        # the position of the old record.
        (HEADER_ID, Message(record, source).id),
        (HEADER_TIMESTAMP, b"%d" % now_ms),
        *sent_from(source.index, record.offset, record_target),
        *((name, value) for name, value in record.headers if name not in ours),
    )
    return NewRecord(
        value=record.value or b"", key=record.key, headers=headers, timestamp_ms=now_ms
    )


# The header with the old position of a retransmitted message, as `{partition}/{offset}`.
HEADER_SOURCE: Final = b"rs"


def sent_from(
    partition: int, offset: int, record_target: RecordTarget
) -> Sequence[tuple[bytes, bytes]]:
    """Return the headers of a retransmitted message: its target, and its old position."""
    return (
        (HEADER_TARGET, record_target.header()),
        (HEADER_SOURCE, b"%d/%d" % (partition, offset)),
    )


def found_sent(record: Record, partition: int, record_target: RecordTarget) -> Sent | None:
    """Return the old and new position of a retransmitted message.

    The result is None if `record` is not from this retransmission.
    """
    source = record.header(HEADER_SOURCE)
    if source is None or record.header(HEADER_TARGET) != record_target.header():
        return None
    source_partition, slash, source_offset = source.partition(b"/")
    if not (slash and source_partition.isdigit() and source_offset.isdigit()):
        return None
    return Sent(int(source_partition), int(source_offset), partition, record.offset)


def dropping(dropped: tuple[str, ...], retransmission_id: str) -> tuple[str, ...]:
    """Add an id to the ids of cancelled retransmissions, and return the newest ids.

    At most CANCELLED_KEPT ids are returned.
    """
    others = tuple(each for each in dropped if each != retransmission_id)
    return (*others, retransmission_id)[-CANCELLED_KEPT:]


def messages_per_second(rate: int, *, share: float, rate_max: float | None) -> float:
    """Return how many messages of a retransmission are sent per second, at most.

    Args:
        rate: The rate of the subscription, in requests per second.
        share: The part of this rate that the retransmission may use.
        rate_max: The rate of the request, in messages per second; None if it has none.
    """
    shared = rate * share
    return shared if rate_max is None else min(shared, rate_max)


def ahead_max(per_second: float) -> int:
    """Return how many messages may be appended and not finished at the same time."""
    return max(AHEAD_MIN, int(per_second * AHEAD_S))


def unfinished(offsets: Iterable[int], progress: Progress | None) -> list[int]:
    """Return the offsets in `offsets` that a commit with this progress counts as unfinished.

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
