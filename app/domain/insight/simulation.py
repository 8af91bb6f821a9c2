"""Simulations: a subscription with other filters and another capacity, over past messages.

The model is a queue with one server that sends `capacity` messages per second in order, and is
empty at the start. Messages arrive in the second of their publication. A(k) messages arrive in
second t(k). After that, this many wait: W(k) = A(k) + max(0, W(k-1) - capacity * (t(k) - t(k-1))),
and the last of them waits for W(k) / capacity (Lindley's recurrence). The model has no failures,
retries, batches or orders.
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
    """The settings to try: filters, requests per second, and requests at a time.

    `request_time` is the duration of a request; without it, only the rate is the limit.
    """

    filters: tuple[Filter, ...]
    rate: int
    in_flight_max: int
    request_time: timedelta | None = None

    @property
    def capacity(self) -> float:
        """The messages per second that the rate and the requests at a time allow (Little's law)."""
        if self.request_time is None:
            return float(self.rate)
        return min(float(self.rate), self.in_flight_max / self.request_time.total_seconds())


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationRequest:
    """What is simulated: the messages of `spans` that were published in the given time.

    `present` are the current filters of the subscription. `gone` counts offsets that neither the
    log nor the archive had: these messages may be from that time too.
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
    """What arrived in a minute, and the largest number of messages that waited in it.

    `read` is how many messages were published, `matched` how many of them match the proposed
    filters, `present` how many match the current filters, and `added` how many match only the
    proposed filters. `peak` is the largest number in one second.
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
    """An example of a message on which proposed and current filters differ.

    `is_added` is true if only the proposed filters match, and false if only the current filters
    match. `size` is the size of the body, and `timestamp_ms` the time of the publication. The id is
    cut to ID_SHOWN_MAX characters.
    """

    message_id: str
    partition: int
    offset: int
    timestamp_ms: int
    size: int
    is_added: bool
