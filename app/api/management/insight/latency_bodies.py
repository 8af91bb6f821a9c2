"""How long messages took to their subscribers, in responses."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from pydantic import Field

from app.api.bodies.base import Schema
from app.api.management.insight.job_bodies import ScopeRead, scope_read
from app.domain.job import Job
from app.domain.latency import Figure, LatencyPart, SubscriptionLatency

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


class TimesRead(Schema):
    """Milliseconds, over all delivered messages whose duration is known."""

    mean: float
    p50: float
    p95: float
    p99: float
    max: float


class SubscriptionLatencyRead(Schema):
    """The messages of a subscription that were finished in the job's time."""

    topic: str
    subscription: str
    subscription_id: str = Field(description="new if a subscription of the name is created again")
    delivered: int
    discarded: int
    unknown: int = Field(description="of both, those whose beginning is not traced")
    resent: int = Field(description="sent again on request: counted here alone")
    attempts: int
    within: int | None = Field(default=None, description="delivered within the SLO")
    attained: float | None = Field(
        default=None, description="share of those not unknown, 0 to 1; a discard is not within"
    )
    total: TimesRead | None = Field(default=None, description="from publication to delivery")
    queued: TimesRead | None = Field(default=None, description="until a worker took it")
    waited: TimesRead | None = Field(
        default=None, description="after `queued`: waits before and between attempts"
    )
    connect: TimesRead | None = Field(default=None, description="opening connections")
    subscriber: TimesRead | None = Field(default=None, description="the rest of the attempts")


class LatencyAnalysisRead(Schema):
    """How long messages took in each subscription, the slowest first.

    The job `jobId` measured this.
    """

    job_id: str
    scope: ScopeRead
    covered_from: str | None = Field(
        default=None,
        description="time of the first trace of the scope: what ended earlier is unknown. Without"
        " traces: end of the scope",
    )
    subscriptions: list[SubscriptionLatencyRead]


def latency_analysis(job: Job, found: Sequence[SubscriptionLatency]) -> LatencyAnalysisRead:
    """Return the response for `found`."""
    return LatencyAnalysisRead(
        job_id=job.id,
        scope=scope_read(job.scope),
        covered_from=_covered_from(job),
        subscriptions=[_latency_read(each) for each in found],
    )


def _covered_from(job: Job) -> str | None:
    at_ms = job.result.counts.get("coveredFrom")
    # Return None for results of earlier versions, which did not store `coveredFrom`.
    return None if at_ms is None else (_EPOCH + at_ms * _MILLISECOND).isoformat()


def _latency_read(latency: SubscriptionLatency) -> SubscriptionLatencyRead:
    attained = latency.attained
    return SubscriptionLatencyRead(
        topic=latency.topic,
        subscription=latency.subscription,
        subscription_id=latency.subscription_id,
        delivered=latency.delivered,
        discarded=latency.discarded,
        unknown=latency.unknown,
        resent=latency.resent,
        attempts=latency.attempts,
        within=latency.within,
        attained=None if attained is None else round(attained, 6),
        total=_times_read(latency.times.get(LatencyPart.TOTAL)),
        queued=_times_read(latency.times.get(LatencyPart.QUEUED)),
        waited=_times_read(latency.times.get(LatencyPart.WAITED)),
        connect=_times_read(latency.times.get(LatencyPart.CONNECT)),
        subscriber=_times_read(latency.times.get(LatencyPart.SUBSCRIBER)),
    )


def _times_read(times: Mapping[Figure, timedelta] | None) -> TimesRead | None:
    if times is None:
        return None
    return TimesRead(
        **{figure.value: round(time / _MILLISECOND, 3) for figure, time in times.items()}
    )
