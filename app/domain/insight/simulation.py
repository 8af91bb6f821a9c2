"""What would have been: a subscription with other filters and another capacity, over history.

A queue with one server that sends `capacity` messages a second, in their order, and is empty at the
beginning. Messages arrive with the second of their publication: after the A(k) of second t(k) there
wait W(k) = A(k) + max(0, W(k-1) - capacity * (t(k) - t(k-1))), the last of them for W(k) / capacity
(Lindley's recurrence). Failures, retries, batches and orders are not in it.
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
# Of an example's id, which may be a foreign producer's.
ID_SHOWN_MAX: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What a subscription might be: its filters, requests a second, and how many at a time.

    `request_time` is how long one takes; where that is not said, the rate alone is the limit.
    """

    filters: tuple[Filter, ...]
    rate: int
    in_flight_max: int
    request_time: timedelta | None = None

    @property
    def capacity(self) -> float:
        """Messages a second: with so many requests at a time, no more can be (Little's law)."""
        if self.request_time is None:
            return float(self.rate)
        return min(float(self.rate), self.in_flight_max / self.request_time.total_seconds())


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationRequest:
    """What is simulated over the messages of `spans` that are of that time.

    `present` are the filters that the subscription has. `gone`: so many offsets, at most, were of
    that time, too, and neither the log nor the archive had them.
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
    """What arrived in a minute, and the most that waited in it.

    `read` messages were published, `matched` wanted by the proposal, `present` by the filters as
    they are; `added` by the first alone. `peak` is the most that arrived in a second.
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
    """A message, as an example of those on which proposed and present filters differ.

    `is_added`: only the proposed ones want it; else only the present ones. `size` is that of its
    body, `timestamp_ms` that of its publication. Of its id the first ID_SHOWN_MAX characters.
    """

    message_id: str
    partition: int
    offset: int
    timestamp_ms: int
    size: int
    is_added: bool
