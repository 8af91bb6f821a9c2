"""The reports of workers about themselves and their subscriptions."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from app.domain.circuit import CircuitReading
from app.domain.metrics.attempts import AttemptTotals


class RateMode(StrEnum):
    """How a worker sends to a subscriber: healthy, recovering, or down (one probe at a time)."""

    NORMAL = "NORMAL"
    SLOW = "SLOW"
    HEARTBEAT = "HEARTBEAT"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStatus:
    """A worker's heartbeat.

    All changes up to `applied_change` are in effect in this worker.
    """

    id: str
    host: str
    pid: int
    applied_change: int
    partitions: int
    started_at: datetime
    seen_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorStatus:
    """The position of a subscription in a partition, as reported by the partition's owner.

    `offset` is the committed offset: everything before is finished. `end` is the last known end of
    the partition. `position` is the next offset to take; None if it was not reported. The counts
    are over the subscription's whole life in this partition. They are stored in commits as absolute
    numbers, so writing them twice changes nothing. While no worker has the subscription,
    `worker_id` is empty.
    """

    subscription_id: str
    topic: str
    partition: int
    worker_id: str
    offset: int
    end: int
    delivered: int
    discarded: int
    volume: int
    filtered: int = 0
    position: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptCounts:
    """Attempts by outcome, and the delivered bytes."""

    codes_2xx: int = 0
    codes_4xx: int = 0
    codes_5xx: int = 0
    codes_other: int = 0
    timeouts: int = 0
    other_errors: int = 0
    retries: int = 0
    bytes: int = 0

    @property
    def attempts(self) -> int:
        """The number of all attempts, with retries."""
        answered = self.codes_2xx + self.codes_4xx + self.codes_5xx + self.codes_other
        return answered + self.timeouts + self.other_errors


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """The sending limit in requests per second, with its mode, its reason, and its time.

    If there is a circuit breaker, the state of its circuit is included. `unapplied` is the
    unexpected error because of which the worker cannot apply the settings; then it sends nothing.
    `held` is what the worker waits for before it continues to read a partition, and since when.
    """

    rate: float = 0.0
    mode: RateMode = RateMode.NORMAL
    reason: str = ""
    since: datetime | None = None
    circuit: CircuitReading | None = None
    unapplied: bool = False
    held: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionLoad:
    """The load of one worker for one subscription.

    `counts` are over the last `window`, and `attempts` over a longer time, for their history; all
    other values are current.
    """

    subscription_id: str
    worker_id: str
    window: timedelta
    in_flight: int
    waiting_retries: int
    counts: AttemptCounts
    output: Output = field(default_factory=Output)
    attempts: AttemptTotals | None = None
