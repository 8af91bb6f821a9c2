"""Traces: what happened to a message, entry by entry, at its publication and in subscriptions."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple

# The maximum length of a reason or an id. A reason may quote a subscriber, and another producer may
# have made the id.
TEXT_LENGTH_MAX: Final = 500
# The reason in the trace of an attempt whose end is unknown, because its worker died or lost the
# partition during the attempt.
END_UNKNOWN: Final = "Nobody knows how it ended: another worker went on with the message"


class TrackingMode(StrEnum):
    """What is traced of a topic's publications, or of a subscription's deliveries (Hermes' values).

    DISCARDED: only final failures are traced: messages that were discarded, or not published.
    """

    OFF = "trackingOff"
    DISCARDED = "discardedOnly"
    ALL = "trackingAll"


class TraceStatus(StrEnum):
    """What a trace entry reports about its message.

    INFLIGHT: an attempt has started. SUCCESS, FAILED: an attempt has ended. DISCARDED, FILTERED:
    the subscription does not get the message any more. ERROR: the message was probably not
    published.
    """

    INFLIGHT = "INFLIGHT"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    DISCARDED = "DISCARDED"
    FILTERED = "FILTERED"
    ERROR = "ERROR"


def traced_id(message_id: bytes) -> str:
    """Return the id under which a message is traced."""
    return message_id[:TEXT_LENGTH_MAX].decode("utf-8", "replace")


class TraceSource(NamedTuple):
    """The source of entries: a subscription, or a topic's publications without a subscription.

    It is a tuple, because its hash is needed for each entry.
    """

    topic: str
    subscription_id: str = ""
    subscription: str = ""

    @property
    def is_publication(self) -> bool:
        """Whether the entries are about publications."""
        return not self.subscription_id


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEntry:
    """One event of a message. Durations are None if they are unknown.

    Attributes:
        source: The subscription, or the topic for a publication.
        message_id: The id of the message.
        at: The time of the event.
        status: What happened.
        partition: The index of the partition; -1 for a publication, because only the log knows it.
        offset: The offset in the partition; -1 for a publication.
        attempt: The number of the attempt, from 1; 0 if the event is not about an attempt.
        status_code: The status of the response.
        reason: Why the attempt failed, or why the message was discarded or filtered out.
        queued: Only before a first attempt: how long the message was in the log until a worker took
            it.
        waited: How long the message waited in the worker before this attempt: for the rate, a
            delay, or the time of a retry.
        connect: The part of `took` until the request was written, if a connection was opened.
        took: How long the attempt took.
        worker: The process that reports this entry.
        address: The target of the request.
        batch_id: The id of the batch that was sent; empty if none was.
        retransmission: The id of the retransmission that sent the message again; empty if none did.
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
        """When the attempt started, if this entry is about its end; None for other entries."""
        return None if self.took is None else self.at - self.took


# Two start times of the same attempt may differ by this much, because clocks may be set during a
# request.
_SAME_BEGINNING: Final = timedelta(seconds=1)
# The order of entries that have the same time, by their status.
_ORDER: Final = {
    TraceStatus.INFLIGHT: 0,
    TraceStatus.SUCCESS: 1,
    TraceStatus.FAILED: 1,
    TraceStatus.ERROR: 1,
    TraceStatus.FILTERED: 2,
    TraceStatus.DISCARDED: 2,
}


def timeline(entries: Iterable[TraceEntry]) -> Sequence[TraceEntry]:
    """Return the entries in the order of time, each once, with the start of each attempt.

    The end of each attempt is recorded, but the start only for long attempts. The other starts are
    added here. The end of an attempt may be missing, because another worker went on with the
    message. Then the entry for its start says so in its reason.
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
    repeated = any(_position(each) == _position(entry) for each in later)
    return replace(entry, reason=END_UNKNOWN) if repeated else entry


def _position(entry: TraceEntry) -> tuple[object, ...]:
    return entry.source, entry.partition, entry.offset


def _attempt(entry: TraceEntry) -> tuple[object, ...]:
    return *_position(entry), entry.attempt, entry.worker
