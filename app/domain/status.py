"""The reports of workers about themselves and their subscriptions."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from app.domain.circuit import CircuitReading
from app.domain.metrics.attempts import AttemptTotals


class RateMode(StrEnum):
    """How a worker sends to a subscriber.

    NORMAL: at the adaptive rate. HEARTBEAT: the subscriber is down, and gets one message at a time,
    with longer and longer pauses. SLOW: the subscriber accepted one of these messages, and gets one
    message a second until it has accepted more messages.
    """

    NORMAL = "NORMAL"
    SLOW = "SLOW"
    HEARTBEAT = "HEARTBEAT"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStatus:
    """What a worker reports about itself, each second.

    All changes of topics and subscriptions up to the number `applied_change` are in effect in this
    worker. `partitions` is how many partitions of topics it owns.
    """

    id: str
    host: str
    pid: int
    applied_change: int
    partitions: int
    started_at: datetime
    seen_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedPartitions:
    """The partitions of a topic that a worker delivers to subscriptions, by their indexes."""

    topic: str
    partitions: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorStatus:
    """The position of a subscription in a partition, as reported by the partition's owner.

    The counts are of all messages since the subscription was created.

    Attributes:
        subscription_id: The subscription.
        topic: Its topic.
        partition: The index of the partition.
        worker_id: The worker that reports; empty if no worker has reported this position.
        offset: The committed offset. All earlier messages are finished.
        end: The last known end of the partition.
        delivered: The number of delivered messages.
        discarded: The number of discarded messages.
        volume: The size of the delivered bodies in bytes.
        filtered: The number of messages that were filtered out.
        position: The next offset to take from the log; None if it was not reported.
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
    """How much a worker may send for a subscription now, and why not more.

    Attributes:
        rate: The allowed requests per second.
        mode: Whether the subscriber is well, down, or recovering.
        reason: Why the rate has this value.
        since: When this mode began.
        circuit: The state of the circuit, if there is a circuit breaker.
        unapplied: Whether an unexpected error keeps the worker from applying the settings. Then the
            worker sends nothing, and `reason` has the error.
        held: What the worker waits for before it reads or commits a partition further, and since
            when; empty if it waits for nothing.
        next_probe_at: When the next message may be tried, if the subscriber is down or the circuit
            is not closed; None otherwise, and if no message waits. A time in the past: it may be
            tried now, or is in flight.
    """

    rate: float = 0.0
    mode: RateMode = RateMode.NORMAL
    reason: str = ""
    since: datetime | None = None
    circuit: CircuitReading | None = None
    unapplied: bool = False
    held: str = ""
    next_probe_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedAttempt:
    """The last attempt of a message that failed, and that is still retried.

    Attributes:
        message_id: The id of the message; for a batch, that of its first message.
        at: When the attempt ended.
        attempts: The number of attempts so far.
        reason: Why it failed.
        status: The response status; None if there was no response.
        answer: The start of the response's body, if it is text.
    """

    message_id: str
    at: datetime
    attempts: int
    reason: str
    status: int | None = None
    answer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionLoad:
    """What one worker does for one subscription.

    Attributes:
        subscription_id: The subscription.
        worker_id: The worker.
        window: The length of the last period of time, which `counts` are about.
        in_flight: The number of requests in flight now.
        waiting_retries: The number of messages that wait for a retry now.
        counts: The attempts in the last period of time.
        output: How much may be sent now.
        attempts: The attempts over a longer time, for the history of metrics.
        failing: The messages that failed last and are still retried, the newest failure first.
            Workers report them. They are stored with the report, but are read only on their own.
    """

    subscription_id: str
    worker_id: str
    window: timedelta
    in_flight: int
    waiting_retries: int
    counts: AttemptCounts
    output: Output = field(default_factory=Output)
    attempts: AttemptTotals | None = None
    failing: Sequence[FailedAttempt] = ()
