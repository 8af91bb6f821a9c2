"""`/analytics`: the results of Spark jobs."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from app.api.access import requires
from app.api.bodies.moments import instant_of
from app.api.dependencies import ServicesOf
from app.api.documented import answers, errors
from app.api.lazy_route import LazyRoute
from app.api.management.insight.analytics_bodies import (
    FailureAnalysisRead,
    UndeliveredAnalysisRead,
    dimensions_of,
    failure_analysis,
    undelivered_analysis,
)
from app.api.management.insight.latency_bodies import LatencyAnalysisRead, latency_analysis
from app.api.media import LIMIT_MAX, answer, limit_of
from app.domain.access.keys import Role
from app.domain.errors import AnalysisNotFoundError
from app.services.insight.analytics import Question

router = APIRouter(prefix="/analytics", tags=["analytics"], route_class=LazyRoute)

JobQuery = Annotated[
    str | None,
    Query(description="id of the job; default: the last job with this scope that is DONE"),
]
TopicQuery = Annotated[str | None, Query(description="only this topic")]
SubscriptionQuery = Annotated[str | None, Query(description="only this subscription of the topic")]
LimitQuery = Annotated[str | None, Query(description=f"1 to {LIMIT_MAX}, 100 by default")]


@router.get(
    "/undelivered",
    dependencies=[requires(Role.ANY)],
    responses=answers(UndeliveredAnalysisRead) | errors(400, AnalysisNotFoundError),
)
async def undelivered(
    services: ServicesOf,
    *,
    by: Annotated[
        str | None,
        Query(description="topic, subscription, reason, status, hour; default: reason,status"),
    ] = None,
    job: JobQuery = None,
    topic: TopicQuery = None,
    subscription: SubscriptionQuery = None,
    from_: Annotated[
        str | None, Query(alias="from", description="RFC 3339 or ms: whole hours from then on")
    ] = None,
    to: Annotated[str | None, Query(description="RFC 3339 or ms, exclusive")] = None,
    limit: LimitQuery = None,
) -> Response:
    """Return counts of discarded messages, the largest first."""
    question = Question(
        limit=limit_of(limit),
        job_id=job,
        topic=topic,
        subscription=subscription,
        start=instant_of(from_, path="from"),
        end=instant_of(to, path="to"),
        by=dimensions_of(by),
    )
    return answer(undelivered_analysis(*await services.analytics.undelivered(question)))


@router.get(
    "/failures",
    dependencies=[requires(Role.ANY)],
    responses=answers(FailureAnalysisRead) | errors(400, AnalysisNotFoundError),
)
async def failures(
    services: ServicesOf,
    *,
    job: JobQuery = None,
    topic: TopicQuery = None,
    limit: LimitQuery = None,
) -> Response:
    """Return groups of discards with the same error and form of payload, the largest first."""
    question = Question(limit=limit_of(limit), job_id=job, topic=topic)
    return answer(failure_analysis(*await services.analytics.failures(question)))


@router.get(
    "/latency",
    dependencies=[requires(Role.ANY)],
    responses=answers(LatencyAnalysisRead) | errors(400, AnalysisNotFoundError),
)
async def latency(
    services: ServicesOf,
    *,
    job: JobQuery = None,
    topic: TopicQuery = None,
    subscription: SubscriptionQuery = None,
    limit: LimitQuery = None,
) -> Response:
    """Return how long messages took to each subscription, and in which step; the slowest first."""
    question = Question(limit=limit_of(limit), job_id=job, topic=topic, subscription=subscription)
    return answer(latency_analysis(*await services.analytics.latency(question)))
