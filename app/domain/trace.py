"""Traces: what happened to a message, entry by entry, on its way in and at each subscription."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

# Of a reason, which may quote a subscriber, and of an id, which may be a foreign producer's.
TEXT_LENGTH_MAX: Final = 500
# Of an attempt that was in the air when its worker died, or had to let go of its partition.
END_UNKNOWN: Final = "Nobody knows how it ended: another worker went on with the message"


class TrackingMode(StrEnum):
    """What is traced of a topic's publications, or of a subscription's deliveries (Hermes' words).

    DISCARDED: only what went wrong for good: messages that were discarded, or not published.
    """

    OFF = "trackingOff"
    DISCARDED = "discardedOnly"
    ALL = "trackingAll"


class TraceStatus(StrEnum):
    """What an entry says of its message.

    INFLIGHT: an attempt has begun. SUCCESS, FAILED: it is over. DISCARDED, FILTERED: the
    subscription gets the message no more. ERROR: it was not published, as far as we know.
    """

    INFLIGHT = "INFLIGHT"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    DISCARDED = "DISCARDED"
    FILTERED = "FILTERED"
    ERROR = "ERROR"


def traced_id(message_id: bytes) -> str:
    """The id under which a message is traced."""
    return message_id[:TEXT_LENGTH_MAX].decode("utf-8", "replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSource:
    """Whose entries they are; of publications, those of a topic without subscription."""

    topic: str
    subscription_id: str = ""
    subscription: str = ""

    @property
    def is_publication(self) -> bool:
        """Whether the entries are of the way in."""
        return not self.subscription_id


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEntry:
    """One thing that happened to a message, at `at`.

    `attempt` counts from 1, and is 0 where no attempt is meant. How long an attempt took is split:
    `queued` in the log until it was taken, `waited` until it was sent (for the rate, a delay, a
    retry), of which `queued` counts for the first attempt alone; `took` from then to its end, of
    which `connect` until the request was written. None where it is not known. `worker` is the
    process that says so, `address` where the request went, `batch_id` the batch that it went in,
    `retransmission` the one that the message was sent again by. Of publications, partition and
    offset are -1: the log knows them.
    """

    source: TraceSource
    message_id: str
    at: datetime
    status: TraceStatus
    partition: int = -1
    offset: int = -1
    attempt: int = 0
    status_code: int | None = None
    reason: str = ""
    queued: timedelta | None = None
    waited: timedelta | None = None
    connect: timedelta | None = None
    took: timedelta | None = None
    worker: str = ""
    address: str = ""
    batch_id: str = ""
    retransmission: str = ""

    @property
    def began(self) -> datetime | None:
        """When the attempt began that is over by it; None if it is no end of one."""
        return None if self.took is None else self.at - self.took


# Clocks are set while a request is in the air.
_SAME_BEGINNING: Final = timedelta(seconds=1)
# What of one moment comes first.
_ORDER: Final = {
    TraceStatus.INFLIGHT: 0,
    TraceStatus.SUCCESS: 1,
    TraceStatus.FAILED: 1,
    TraceStatus.ERROR: 1,
    TraceStatus.FILTERED: 2,
    TraceStatus.DISCARDED: 2,
}


def timeline(entries: Iterable[TraceEntry]) -> Sequence[TraceEntry]:
    """The entries as they happened, oldest first: each once, and each attempt with its beginning.

    An attempt is recorded when it is over; that it had begun is recorded only if it was long. One
    without an end says so, if another worker has sent its message again.
    """
    unique = dict.fromkeys(entries)
    begun = [entry for end in unique if (entry := _beginning(end)) is not None]
    known: dict[tuple[object, ...], list[datetime]] = defaultdict(list)
    for each in begun:
        known[_attempt(each)].append(each.at)
    in_the_air = (
        _without_end(each, unique)
        for each in unique
        if each.status is not TraceStatus.INFLIGHT
        or not any(abs(each.at - at) <= _SAME_BEGINNING for at in known[_attempt(each)])
    )
    return sorted([*begun, *in_the_air], key=lambda each: (each.at, _ORDER[each.status]))


def _beginning(end: TraceEntry) -> TraceEntry | None:
    if end.began is None:
        return None
    return replace(
        end,
        at=end.began,
        status=TraceStatus.INFLIGHT,
        status_code=None,
        reason="",
        connect=None,
        took=None,
    )


def _without_end(entry: TraceEntry, others: Iterable[TraceEntry]) -> TraceEntry:
    if entry.status is not TraceStatus.INFLIGHT:
        return entry
    later = (each for each in others if each.worker != entry.worker and each.at > entry.at)
    repeated = any(_place(each) == _place(entry) for each in later)
    return replace(entry, reason=END_UNKNOWN) if repeated else entry


def _place(entry: TraceEntry) -> tuple[object, ...]:
    return entry.source, entry.partition, entry.offset


def _attempt(entry: TraceEntry) -> tuple[object, ...]:
    return *_place(entry), entry.attempt, entry.worker
