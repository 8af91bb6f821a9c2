"""Simulations: a subscription with other filters and another capacity, over past messages.

The model is a queue with one server that sends `capacity` messages per second in order, and is
empty at the start. Messages arrive in the second of their publication. A(k) messages arrive in
second t(k). After that, this many wait: W(k) = A(k) + max(0, W(k-1) - capacity * (t(k) - t(k-1))),
and the last of them waits for W(k) / capacity (Lindley's recurrence). The model has no failures, no
retries, no batches, and no messages that wait because of their order.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from app.domain.catalogue.filters import Filter
from app.domain.errors import ValidationFailedError
from app.domain.replay.retransmission import OffsetSpan

WINDOW_MAX: Final = timedelta(days=7)
REQUEST_TIME_MIN: Final = timedelta(milliseconds=1)
REQUEST_TIME_MAX: Final = timedelta(minutes=10)
# The maximum length of an example's id. Producers other than Angelia may use long ids.
ID_SHOWN_MAX: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """The settings to try.

    Attributes:
        filters: The filters of the subscription.
        rate: The requests per second.
        in_flight_max: The maximum number of requests at a time.
        request_time: The duration of a request. If it is None, only the rate is the limit.
    """

    filters: tuple[Filter, ...]
    rate: int
    in_flight_max: int
    request_time: timedelta | None = None

    @property
    def capacity(self) -> float:
        """The messages per second that `rate` and `in_flight_max` allow (Little's law)."""
        if self.request_time is None:
            return float(self.rate)
        return min(float(self.rate), self.in_flight_max / self.request_time.total_seconds())


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationRequest:
    """The request for a simulation: its messages, and the settings to try.

    Attributes:
        since: The start of the time whose messages are simulated.
        until: The end of that time.
        spans: The offsets of the messages.
        proposal: The settings to try.
        present: The current filters of the subscription.
        gone: How many offsets neither the log nor the archive had. The messages at these offsets
            may be from that time, too.
    """

    since: datetime
    until: datetime
    spans: tuple[OffsetSpan, ...]
    proposal: Proposal
    present: tuple[Filter, ...] = ()
    gone: int = 0

    def __post_init__(self) -> None:
        if self.since >= self.until:
            raise ValidationFailedError.of("from", "must be before to")
        if self.until - self.since > WINDOW_MAX:
            raise ValidationFailedError.of("from", f"must be at most {WINDOW_MAX.days} days ago")


@dataclass(frozen=True, slots=True, kw_only=True)
class Minute:
    """How many messages arrived in one minute, and how many waited in this minute.

    Attributes:
        at: The start of the minute.
        read: How many messages were published.
        matched: How many of them match the proposed filters.
        present: How many of them match the current filters.
        added: How many of them match only the proposed filters.
        size: The size of the matching bodies in bytes.
        peak: The largest number of matching messages in one second.
        backlog: The largest number of messages that waited.
    """

    at: datetime
    read: int
    matched: int
    present: int
    added: int
    size: int
    peak: int
    backlog: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Differing:
    """An example of a message for which the proposed and the current filters decide differently.

    `is_added` is true if only the proposed filters match the message, and false if only the current
    filters match it. `size` is the size of the body, and `timestamp_ms` the time of the
    publication. The id is cut to ID_SHOWN_MAX characters.
    """

    message_id: str
    partition: int
    offset: int
    timestamp_ms: int
    size: int
    is_added: bool
