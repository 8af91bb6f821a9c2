"""Histories of metrics in responses."""

from typing import Any, Final

from pydantic import Field

from app.api.bodies.base import Schema
from app.domain.metrics.samples import MetricsSample, percentile
from app.domain.metrics.steps import Step
from app.services.metrics.history import HistoryPoint, MetricsHistory

_SHARES: Final = (0.5, 0.95, 0.99)


class FailedRead(Schema):
    """Requests without a 2xx response, by outcome."""

    codes4xx: int = Field(alias="codes4xx")
    codes5xx: int = Field(alias="codes5xx")
    codes_other: int = Field(description="1xx and 3xx")
    timeouts: int
    other_errors: int


class DurationsRead(Schema):
    """Percentiles of the duration of requests in seconds, estimated from a histogram."""

    p50: float
    p95: float
    p99: float


class SubscriptionPointRead(Schema):
    """What happened to a subscription in one minute, hour or day. Counts are of this time alone."""

    time: str = Field(description="when the step begins")
    delivered: int
    discarded: int
    filtered: int
    retries: int = Field(description="requests that were not the first for their message")
    failed: FailedRead
    rate: float = Field(description="requests per second, over the part that has passed")
    output_rate: float | None = Field(
        default=None,
        description="requests per second that could leave: the mean over the minutes; absent if no"
        " worker reported it",
    )
    lag: int = Field(description="messages not finished: the most at the end of a minute")
    latency: DurationsRead | None = Field(default=None, description="absent without requests")


class TopicPointRead(Schema):
    """What happened to a topic in one minute, hour or day, over all its subscriptions then."""

    time: str = Field(description="when the step begins")
    published: int = Field(description="messages, and copies that were sent again")
    delivered: int
    discarded: int
    filtered: int
    retries: int = Field(description="requests that were not the first for their message")
    failed: FailedRead
    rate: float = Field(description="requests per second, over the part that has passed")
    lag: int = Field(description="messages not finished: the most at the end of a minute")
    latency: DurationsRead | None = Field(default=None, description="absent without requests")


class _HistoryRead(Schema):
    from_: str = Field(alias="from", description="the begin of the first step")
    to: str = Field(description="the end of the last step")
    step: Step


class SubscriptionHistoryRead(_HistoryRead):
    """The history of a subscription: the steps in which something happened, in order."""

    points: list[SubscriptionPointRead]

    @classmethod
    def of(cls, found: MetricsHistory) -> "SubscriptionHistoryRead":
        """Return the response for a subscription's history."""
        points = [
            SubscriptionPointRead(**_common(each), output_rate=_rounded(each.sample.allowed))
            for each in found.points
        ]
        return cls(**_span(found), points=points)


class TopicHistoryRead(_HistoryRead):
    """The history of a topic: the steps in which something happened, in order."""

    points: list[TopicPointRead]

    @classmethod
    def of(cls, found: MetricsHistory) -> "TopicHistoryRead":
        """Return the response for a topic's history."""
        points = [
            TopicPointRead(**_common(each), published=each.sample.count("published"))
            for each in found.points
        ]
        return cls(**_span(found), points=points)


def _span(found: MetricsHistory) -> dict[str, Any]:
    span = found.span
    return {"from_": span.since.isoformat(), "to": span.until.isoformat(), "step": span.step}


def _common(point: HistoryPoint) -> dict[str, Any]:
    sample = point.sample
    return {
        "time": point.start.isoformat(),
        "delivered": sample.count("delivered"),
        "discarded": sample.count("discarded"),
        "filtered": sample.count("filtered"),
        "retries": sample.count("retries"),
        "failed": FailedRead(
            codes4xx=sample.count("codes_4xx"),
            codes5xx=sample.count("codes_5xx"),
            codes_other=sample.count("codes_other"),
            timeouts=sample.count("timeouts"),
            other_errors=sample.count("other_errors"),
        ),
        "rate": round(sample.attempts / point.elapsed.total_seconds(), 3),
        "lag": sample.lag,
        "latency": _durations(sample),
    }


def _durations(sample: MetricsSample) -> DurationsRead | None:
    if not sample.attempts:
        return None
    p50, p95, p99 = (round(percentile(sample.durations, each) or 0.0, 4) for each in _SHARES)
    return DurationsRead(p50=p50, p95=p95, p99=p99)


def _rounded(rate: float | None) -> float | None:
    return None if rate is None else round(rate, 2)
