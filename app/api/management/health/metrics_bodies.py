"""Metrics in responses: Hermes' names, with numbers instead of its strings."""

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from app.api.bodies.base import Schema
from app.services.rates import BacklogForecast, SubscriptionMetrics, TopicMetrics


class SubscriptionMetricsRead(Schema):
    """Counts since the subscription's creation, open messages, and rates per second."""

    delivered: int
    discarded: int
    filtered: int = Field(description="messages that its filters kept from it")
    volume: int = Field(description="bytes delivered")
    inflight: int
    waiting_retries: int = Field(description="messages that wait for a retry")
    lag: int = Field(description="messages not finished yet")
    rate: float = Field(description="requests per second")
    throughput: float = Field(description="bytes delivered per second")
    batch_rate: float = Field(default=0.0, description="batches per second")
    timeouts: float
    other_errors: float
    codes2xx: float = Field(alias="codes2xx")
    codes4xx: float = Field(alias="codes4xx")
    codes5xx: float = Field(alias="codes5xx")
    retries: float
    output_rate: float | None = Field(
        default=None, description="requests per second that may leave now, by limit and mode"
    )
    mode: Literal["NORMAL", "SLOW", "HEARTBEAT"] | None = Field(
        default=None,
        description="HEARTBEAT: the subscriber is down and gets only probes; absent if idle",
    )
    mode_reason: str | None = Field(default=None, description="what limits outputRate")
    mode_since: float | None = Field(default=None, description="seconds since the epoch")
    circuit: Literal["CLOSED", "OPEN", "HALF_OPEN"] | None = Field(
        default=None,
        description=(
            "OPEN: nothing is sent; HALF_OPEN: one message is sent. Absent without circuitBreaker,"
            " and if idle"
        ),
    )
    circuit_reason: str | None = Field(default=None, description="why the circuit is not closed")
    circuit_since: float | None = Field(
        default=None, description="when `circuit` changed, in seconds since the epoch"
    )
    next_probe_at: float | None = Field(
        default=None,
        description=(
            "when the next waiting message may be tried, in HEARTBEAT or if `circuit` is not"
            " CLOSED, in seconds since the epoch; now if that has passed"
        ),
    )
    oldest_unfinished_age: float | None = Field(
        default=None,
        description=(
            "seconds, at least, of the oldest message that is not finished. This and the next two"
            " are as of the last look at its health, and of a single subscription only"
        ),
    )
    drain_seconds: float | None = Field(
        default=None, description="until nothing waits; absent: for ever, or not known yet"
    )
    expiring: int | None = Field(
        default=None,
        description="messages whose time to live will end before they are delivered",
    )

    @classmethod
    def of(cls, figures: SubscriptionMetrics) -> "SubscriptionMetricsRead":
        """Return the response for `figures`."""
        output = figures.output
        circuit = output.circuit if output else None
        return cls(
            delivered=figures.delivered,
            discarded=figures.discarded,
            filtered=figures.filtered,
            volume=figures.volume,
            inflight=figures.inflight,
            waiting_retries=figures.waiting_retries,
            lag=figures.lag,
            rate=figures.rate,
            throughput=figures.throughput,
            batch_rate=figures.batch_rate,
            timeouts=figures.timeouts,
            other_errors=figures.other_errors,
            codes2xx=figures.codes_2xx,
            codes4xx=figures.codes_4xx,
            codes5xx=figures.codes_5xx,
            retries=figures.retries,
            output_rate=output.rate if output else None,
            mode=output.mode.value if output else None,
            mode_reason=output.reason if output else None,
            mode_since=_seconds_of(output.since if output else None),
            circuit=circuit.state.value if circuit else None,
            circuit_reason=circuit.reason or None if circuit else None,
            circuit_since=circuit.since.timestamp() if circuit else None,
            next_probe_at=_seconds_of(output.next_probe_at if output else None),
            **_before_it(figures.backlog_forecast),
        )


def _seconds_of(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


def _before_it(backlog_forecast: BacklogForecast | None) -> dict[str, Any]:
    if backlog_forecast is None:
        return {}
    return {
        "oldest_unfinished_age": round(backlog_forecast.oldest_age.total_seconds(), 1),
        "drain_seconds": None
        if backlog_forecast.drain is None
        else backlog_forecast.drain.total_seconds(),
        "expiring": backlog_forecast.expiring,
    }


class LifetimeRead(Schema):
    """Counts since the subscription's creation."""

    delivered: int
    discarded: int
    volume: int = Field(description="bytes delivered")

    @classmethod
    def of(cls, figures: SubscriptionMetrics) -> "LifetimeRead":
        """Return the response for `figures`."""
        return cls(delivered=figures.delivered, discarded=figures.discarded, volume=figures.volume)


class TopicMetricsRead(Schema):
    """Metrics of a topic. Unknown values are left out."""

    published: int | None = Field(
        default=None, description="messages ever, and copies that were sent again"
    )
    volume: int = Field(description="bytes ever, of what was published by HTTP")
    rate: float | None = Field(
        default=None,
        description="messages published per second, over the last minute; only of a single topic",
    )
    delivery_rate: float = Field(description="deliveries per second, over all subscriptions")
    throughput: float = Field(description="bytes delivered per second, over all subscriptions")
    subscriptions: int

    @classmethod
    def of(cls, figures: TopicMetrics) -> "TopicMetricsRead":
        """Return the response for `figures`."""
        return cls(
            published=figures.published,
            volume=figures.volume,
            rate=figures.rate,
            delivery_rate=figures.delivery_rate,
            throughput=figures.throughput,
            subscriptions=figures.subscriptions,
        )


class NamedTopicMetricsRead(TopicMetricsRead):
    """A topic's metrics with its name."""

    name: str


class NamedSubscriptionMetricsRead(SubscriptionMetricsRead):
    """A subscription's metrics with its names. The lag is from the last report of the workers."""

    name: str
    topic_name: str
