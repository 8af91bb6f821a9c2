"""Results of analyses of discarded messages."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class Dimension(StrEnum):
    """A property of discards, such as the reason, by which they are counted."""

    TOPIC = "topic"
    SUBSCRIPTION = "subscription"
    REASON = "reason"
    STATUS = "status"
    HOUR = "hour"


class FailurePattern(StrEnum):
    """Where a failure of a topic happens, and what this shows about its cause.

    If the same form of payload fails in several subscriptions, the cause is probably the publisher.
    If several forms fail in one subscription, the cause is probably the subscriber. Anything else
    shows nothing.
    """

    ONE_SHAPE = "ONE_SHAPE"
    ONE_SUBSCRIPTION = "ONE_SUBSCRIPTION"
    MIXED = "MIXED"


@dataclass(frozen=True, slots=True, kw_only=True)
class UndeliveredCount:
    """The number of discards that have the same values in the counted dimensions.

    Other dimensions are None. `reason` is normalised, and `hour` is the start of the hour.
    `attempts` and `volume` (bytes) are sums.
    """

    topic: str | None = None
    subscription: str | None = None
    reason: str | None = None
    status: int | None = None
    hour: datetime | None = None
    messages: int
    attempts: int
    volume: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DistinguishingField:
    """A field of the JSON body that distinguishes failing messages from others of their topic.

    Failing messages have the field, with that value if it is given, or (`present` False) lack it.
    `support` is the share of failing messages of which this is true, `passing` the share of others.
    `lift` is how much more frequent it is among failing messages than among all, at most 2, where
    both groups count the same.
    """

    field: str
    present: bool
    value: str | None
    support: float
    passing: float
    lift: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureCluster:
    """Discards of a topic with one status, one normalised error and one form of payload.

    `subscriptions` are those where it happened. `shapes` is how many forms of payload fail with
    this error in the topic. The example is the newest discard. The `fields` that distinguish most
    come first; `cause` is the likely cause in words.
    """

    topic: str
    status: int | None
    error: str
    shape: str
    pattern: FailurePattern
    messages: int
    subscriptions: int
    shapes: int
    first_at: datetime
    last_at: datetime
    example_id: str
    example_subscription: str
    example_reason: str
    fields: tuple[DistinguishingField, ...] = field(default=(), hash=False)
    cause: str = ""
