"""What analyses of discarded messages find."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Dimension(StrEnum):
    """What discards are counted by."""

    TOPIC = "topic"
    SUBSCRIPTION = "subscription"
    REASON = "reason"
    STATUS = "status"
    HOUR = "hour"


class FailurePattern(StrEnum):
    """Who fails with one error in a topic: what that says of whose fault it is.

    One payload shape at several subscriptions points to the publisher; one subscription with
    several shapes to the subscriber. Anything else points nowhere.
    """

    ONE_SHAPE = "ONE_SHAPE"
    ONE_SUBSCRIPTION = "ONE_SUBSCRIPTION"
    MIXED = "MIXED"


@dataclass(frozen=True, slots=True, kw_only=True)
class UndeliveredCount:
    """Discards that are alike in what they were counted by; the rest of the dimensions is None.

    `reason` is normalised, `hour` the beginning of the hour; `attempts` and `volume` (bytes) are
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
    """Discards of a topic with one status, one normalised error and one shape of payload.

    `subscriptions` had it; `shapes` is how many shapes the same error has in the topic. The
    example is the newest of them.
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
