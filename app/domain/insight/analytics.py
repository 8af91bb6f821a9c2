"""Results of analyses of discarded messages."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Dimension(StrEnum):
    """A property by which discards are counted."""

    TOPIC = "topic"
    SUBSCRIPTION = "subscription"
    REASON = "reason"
    STATUS = "status"
    HOUR = "hour"


class FailurePattern(StrEnum):
    """Which subscriptions of a topic fail with the same error, and what this shows about the cause.

    If the same form of payload fails at several subscriptions, the cause is probably the publisher.
    If several forms fail at one subscription, the cause is probably the subscriber. Anything else
    shows nothing.
    """

    ONE_SHAPE = "ONE_SHAPE"
    ONE_SUBSCRIPTION = "ONE_SUBSCRIPTION"
    MIXED = "MIXED"


@dataclass(frozen=True, slots=True, kw_only=True)
class UndeliveredCount:
    """The number of discards with the same values in the counted dimensions; others are None.

    `reason` is normalised, `hour` is the start of the hour; `attempts` and `volume` (bytes) are
    sums.
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
class FailureCluster:
    """Discards of a topic with one status, one normalised error and one form of payload.

    `subscriptions` are those where it happened. `shapes` is how many forms of payload fail with
    this error in the topic. The example is the newest discard.
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
