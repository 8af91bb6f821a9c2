"""Results of analyses in responses."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Final, Literal

from pydantic import Field

from app.api.bodies.base import Schema
from app.api.management.insight.job_bodies import ScopeRead, scope_read
from app.domain.errors import ValidationFailedError
from app.domain.insight.analytics import Dimension, FailureCluster, UndeliveredCount
from app.domain.job import Job

BY_DEFAULT: Final = (Dimension.REASON, Dimension.STATUS)


class UndeliveredCountRead(Schema):
    """A group of similar discards. Fields that do not define the groups are left out."""

    topic: str | None = None
    subscription: str | None = None
    reason: str | None = Field(default=None, description="with its numbers, ids and names masked")
    status: int | None = None
    hour: str | None = None
    messages: int
    attempts: int
    bytes: int


class UndeliveredAnalysisRead(Schema):
    """Discards in groups, counted by the job `jobId`, the largest group first."""

    job_id: str
    scope: ScopeRead
    counts: list[UndeliveredCountRead]


class DistinguishingFieldRead(Schema):
    """A field that failing messages have, or lack, and others do not: see docs/spark.md."""

    field: str
    present: bool
    value: str | None = None
    support: float
    passing: float
    lift: float


class FailureClusterRead(Schema):
    """Discards of a topic with the same status, error and form of payload."""

    topic: str
    status: int | None = None
    error: str = Field(description="the reason with its numbers, ids and names masked")
    shape: str = Field(description="the keys of a JSON object, or what else the body is")
    pattern: Literal["ONE_SHAPE", "ONE_SUBSCRIPTION", "MIXED"] = Field(
        description="ONE_SHAPE: at several subscriptions; ONE_SUBSCRIPTION: with several shapes"
    )
    messages: int
    subscriptions: int
    shapes: int = Field(description="shapes with this error in the topic")
    first_at: str
    last_at: str
    example_message_id: str
    example_subscription: str
    example_reason: str
    cause: str
    fields: list[DistinguishingFieldRead]


class FailureAnalysisRead(Schema):
    """Groups of failures, found by the job `jobId`, the largest first."""

    job_id: str
    scope: ScopeRead
    clusters: list[FailureClusterRead]


def dimensions_of(text: str | None) -> Sequence[Dimension]:
    """Parse the query parameter `by`: dimensions separated by commas.

    Raises:
        ValidationFailedError: A dimension is not valid.
    """
    if text is None:
        return BY_DEFAULT
    try:
        return list(dict.fromkeys(Dimension(name.strip()) for name in text.split(",")))
    except ValueError as exc:
        known = ", ".join(Dimension)
        raise ValidationFailedError.of("by", f"must be one or more of {known}") from exc


def undelivered_analysis(job: Job, counts: Sequence[UndeliveredCount]) -> UndeliveredAnalysisRead:
    """Return the response for `counts`."""
    return UndeliveredAnalysisRead(
        job_id=job.id,
        scope=scope_read(job.scope),
        counts=[
            UndeliveredCountRead(
                topic=each.topic,
                subscription=each.subscription,
                reason=each.reason,
                status=each.status,
                hour=each.hour.isoformat() if each.hour else None,
                messages=each.messages,
                attempts=each.attempts,
                bytes=each.volume,
            )
            for each in counts
        ],
    )


def failure_analysis(job: Job, clusters: Sequence[FailureCluster]) -> FailureAnalysisRead:
    """Return the response for `clusters`."""
    return FailureAnalysisRead(
        job_id=job.id,
        scope=scope_read(job.scope),
        clusters=[_cluster_read(each) for each in clusters],
    )


def _cluster_read(cluster: FailureCluster) -> FailureClusterRead:
    return FailureClusterRead(
        topic=cluster.topic,
        status=cluster.status,
        error=cluster.error,
        shape=cluster.shape,
        pattern=cluster.pattern.value,
        messages=cluster.messages,
        subscriptions=cluster.subscriptions,
        shapes=cluster.shapes,
        first_at=cluster.first_at.isoformat(),
        last_at=cluster.last_at.isoformat(),
        example_message_id=cluster.example_id,
        example_subscription=cluster.example_subscription,
        example_reason=cluster.example_reason,
        cause=cluster.cause,
        fields=[DistinguishingFieldRead(**asdict(each)) for each in cluster.fields],
    )
