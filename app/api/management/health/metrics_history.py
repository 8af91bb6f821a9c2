"""`…/metrics/history` of topics and subscriptions: the metrics by minute, hour and day."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from app.api.access import requires
from app.api.bodies.moments import instant_of
from app.api.dependencies import ServicesOf, SubscriptionName, TopicName
from app.api.documented import answers, errors
from app.api.lazy_route import LazyRoute
from app.api.management.health.metrics_history_bodies import (
    SubscriptionHistoryRead,
    TopicHistoryRead,
)
from app.api.media import answer
from app.domain.access.keys import Role
from app.services.metrics.history import RequestedHistory

router = APIRouter(prefix="/topics/{topic}", tags=["health"], route_class=LazyRoute)


async def _requested(
    since: Annotated[
        str | None,
        Query(alias="from", description="RFC 3339, ms, or ago (`-6h`); a day before `to`"),
    ] = None,
    until: Annotated[
        str | None, Query(alias="to", description="RFC 3339, ms, or ago (`-6h`); now")
    ] = None,
    step: Annotated[
        str | None,
        Query(
            description="`minute` (of the last two days), `hour` or `day` (of the last 90 days);"
            " the shortest that is kept and makes at most 1500 points"
        ),
    ] = None,
) -> RequestedHistory:
    return RequestedHistory(
        since=instant_of(since, path="from"), until=instant_of(until, path="to"), step=step
    )


Requested = Annotated[RequestedHistory, Depends(_requested)]


@router.get(
    "/metrics/history",
    dependencies=[requires(Role.ANY)],
    responses=answers(TopicHistoryRead) | errors(400, 404),
)
async def topic_metrics_history(
    topic: TopicName, services: ServicesOf, wanted: Requested
) -> Response:
    """Return metrics of a topic over time, up to now.

    Steps without events are left out.
    """
    return answer(TopicHistoryRead.of(await services.metrics_history.topic(topic, wanted)))


@router.get(
    "/subscriptions/{name}/metrics/history",
    dependencies=[requires(Role.ANY)],
    responses=answers(SubscriptionHistoryRead) | errors(400, 404),
)
async def subscription_metrics_history(
    topic: TopicName, name: SubscriptionName, *, services: ServicesOf, wanted: Requested
) -> Response:
    """Return metrics of a subscription over time, up to now.

    Steps without events are left out. Delivered, discarded and filtered messages count once, as in
    `…/metrics`.
    """
    found = await services.metrics_history.subscription(topic, name, wanted)
    return answer(SubscriptionHistoryRead.of(found))
