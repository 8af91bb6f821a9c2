"""Results of analyses of discarded messages."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class Dimension(StrEnum):
    """A property of discards, such as the reason. Discards with equal values form one count."""

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
    """The number of discards with the same values in the dimensions by which they were counted.

    The fields of other dimensions are None.

    Attributes:
        topic: The topic.
        subscription: The name of the subscription.
        reason: The reason of the discards, without what differs from message to message.
        status: The last response status.
        hour: The start of the hour.
        messages: The number of discards.
        attempts: The number of all their attempts.
        volume: The size of all their bodies in bytes.
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

    Attributes:
        field: The field.
        present: Whether failing messages have the field; False if they do not have it.
        value: The value that the field has in failing messages; None if any value.
        support: The part of the failing messages that are like this, from 0 to 1.
        passing: The part of the other messages that are like this, from 0 to 1.
        lift: How many times as frequent such messages are among the failing messages as among all
            messages. The result is at most 2, because failing and other messages have the same
            weight.
    """

    field: str
    present: bool
    value: str | None
    support: float
    passing: float
    lift: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureCluster:
    """Discards of a topic with the same status, the same error, and payloads of the same form.

    Attributes:
        topic: The topic.
        status: The last response status.
        error: The reason of the discards, without what differs from message to message.
        shape: The form of the payload.
        pattern: Where the failure happens, and what this shows.
        messages: The number of discards.
        subscriptions: The number of subscriptions that discarded such messages.
        shapes: How many forms of payload fail with this error in the topic.
        first_at: The time of the first discard.
        last_at: The time of the last discard.
        example_id: The message id of the newest discard.
        example_subscription: The subscription of the newest discard.
        example_reason: The whole reason of the newest discard.
        fields: Fields that distinguish these messages from others, the most distinguishing field
            first.
        cause: The likely cause in words.
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
