"""The history of metrics: its values in responses, and its query."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, ClassVar, Literal

from angelia_client.reading import Answered, FromJson, Instant
from angelia_client.requests import time_text

Step = Literal["minute", "hour", "day"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedRequests(Answered):
    """The numbers of failed requests, by kind of failure."""

    SCHEMA: ClassVar[str] = "FailedRead"

    codes_4xx: Annotated[int, FromJson(name="codes4xx")]
    codes_5xx: Annotated[int, FromJson(name="codes5xx")]
    codes_other: int
    timeouts: int
    other_errors: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Durations(Answered):
    """Percentiles of the duration of requests, in seconds."""

    SCHEMA: ClassVar[str] = "DurationsRead"

    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionPoint(Answered):
    """The metrics of a subscription in one step of time.

    `rate` is how many requests per second were sent, and `output_rate` how many were allowed.
    """

    SCHEMA: ClassVar[str] = "SubscriptionPointRead"

    time: Instant
    delivered: int
    discarded: int
    filtered: int
    retries: int
    failed: FailedRequests
    rate: float
    output_rate: float | None
    lag: int
    latency: Durations | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPoint(Answered):
    """The metrics of a topic in one step of time, summed over the subscriptions of that time."""

    SCHEMA: ClassVar[str] = "TopicPointRead"

    time: Instant
    published: int
    delivered: int
    discarded: int
    filtered: int
    retries: int
    failed: FailedRequests
    rate: float
    lag: int
    latency: Durations | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionHistory(Answered):
    """The history of a subscription: the steps of time in which something happened, in order."""

    SCHEMA: ClassVar[str] = "SubscriptionHistoryRead"

    since: Annotated[Instant, FromJson(name="from")]
    until: Annotated[Instant, FromJson(name="to")]
    step: str
    points: tuple[SubscriptionPoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicHistory(Answered):
    """The history of a topic: the steps of time in which something happened, in order."""

    SCHEMA: ClassVar[str] = "TopicHistoryRead"

    since: Annotated[Instant, FromJson(name="from")]
    until: Annotated[Instant, FromJson(name="to")]
    step: str
    points: tuple[TopicPoint, ...]


def history_query(
    start: datetime | None, end: datetime | None, step: Step | None
) -> Mapping[str, str | None]:
    """Return the query parameters of a request for a history."""
    return {
        "from": None if start is None else time_text(start),
        "to": None if end is None else time_text(end),
        "step": step,
    }
