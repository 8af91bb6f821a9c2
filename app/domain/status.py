"""What workers report of themselves and of the subscriptions they deliver."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from app.domain.circuit import CircuitReading


class RateMode(StrEnum):
    """How a subscriber is treated: as healthy, as recovering, or as down (one probe at a time)."""

    NORMAL = "NORMAL"
    SLOW = "SLOW"
    HEARTBEAT = "HEARTBEAT"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStatus:
    """A worker's heartbeat.

    Every change up to `applied_change` has taken effect in it.
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
    """Where one subscription stands in one partition, by its owner.

    `offset` is the committed one: all before it is finished. `end` is the partition's end as last
    seen. `position` is the next offset to be taken, which is ahead of what is finished; None: it
    was not reported. The counts are of the subscription's whole life in this partition. They ride
    in the commit metadata, so they are absolute and writing them twice changes nothing. Before a
    worker has the subscription its `worker_id` is empty.
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
    """Attempts by what came of them, and the bytes that were delivered."""

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
        """All of them, whatever came of them: a retry is one, too."""
        answered = self.codes_2xx + self.codes_4xx + self.codes_5xx + self.codes_other
        return answered + self.timeouts + self.other_errors


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What leaves at most, in requests per second; in which mode, why, and since when.

    With a circuit breaker also how its circuit is. While it is `unapplied`, a defect of ours keeps
    the worker from applying the settings, and nothing leaves there.
    """

    rate: float = 0.0
    mode: RateMode = RateMode.NORMAL
    reason: str = ""
    since: datetime | None = None
    circuit: CircuitReading | None = None
    unapplied: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionLoad:
    """What one worker does for one subscription.

    `counts` are over the last `window`; the others are as of right now.
    """

    subscription_id: str
    worker_id: str
    window: timedelta
    in_flight: int
    waiting_retries: int
    counts: AttemptCounts
    output: Output = field(default_factory=Output)
