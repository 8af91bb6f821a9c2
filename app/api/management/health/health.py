"""Health, forecasts and alerts."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import PlainTextResponse, Response

from app.accepted import TEXT
from app.api.access import requires
from app.api.dependencies import ServicesOf, SubscriptionName, TopicName
from app.api.documented import LINK_HEADER, Responses, answers, errors
from app.api.lazy_route import LazyRoute
from app.api.management.health.health_bodies import (
    AlertRead,
    ForecastRead,
    HealthRead,
    UnhealthyRead,
)
from app.api.media import LIMIT_MAX, AnswerNotes, answer, limit_of, prefers_text
from app.api.pages import KeyPageOf, keyed, next_link
from app.domain.access.keys import Role
from app.domain.catalogue.monitoring import Severity
from app.domain.errors import ValidationFailedError
from app.storage.health.subscription_health import HealthQuery

router = APIRouter(tags=["health"], route_class=LazyRoute)

_SEVERE: Final = (Severity.CRITICAL, Severity.IMPORTANT)
_NUL: Final = "\0"


@router.get(
    "/topics/{topic}/subscriptions/{name}/health",
    dependencies=[requires(Role.ANY)],
    responses=answers(HealthRead) | errors(400, 404),
)
async def subscription_health(
    topic: TopicName, name: SubscriptionName, services: ServicesOf
) -> Response:
    """Return the health of a subscription by Hermes' indicators, evaluated some seconds ago."""
    return answer(HealthRead.of(await services.health.subscription(topic, name)))


@router.get(
    "/topics/{topic}/subscriptions/{name}/forecast",
    dependencies=[requires(Role.ANY)],
    responses=answers(ForecastRead) | errors(400, 404),
)
async def subscription_forecast(
    topic: TopicName, name: SubscriptionName, services: ServicesOf
) -> Response:
    """Return how many messages wait, when they will be delivered, and which will be lost."""
    return answer(ForecastRead.of(await services.health.subscription(topic, name)))


async def _wanted(
    *,
    ownerSourceName: Annotated[str | None, Query(description="register of the owner")] = None,  # noqa: N803 - the parameter has Hermes' name
    ownerId: Annotated[str | None, Query(description="id of the owner")] = None,  # noqa: N803 - the parameter has Hermes' name
    subscriptionNames: Annotated[list[str], Query(description="names of subscriptions")] = [],  # noqa: B006, N803 - FastAPI copies the list; Hermes' name
    qualifiedTopicNames: Annotated[list[str], Query(description="names of topics")] = [],  # noqa: B006, N803 - FastAPI copies the list; Hermes' name
    respectMonitoringSeverity: Annotated[  # noqa: N803 - the parameter has Hermes' name
        bool,
        Query(
            description="leave out subscriptions of the severity NON_IMPORTANT, which is the"
            " default of `monitoringDetails`"
        ),
    ] = True,
) -> HealthQuery:
    requested = (ownerSourceName or "", ownerId or "", *subscriptionNames, *qualifiedTopicNames)
    if any(_NUL in each for each in requested):
        # Names with a zero character (NUL) are refused: no name has one, and the database refuses
        # it in a query.
        raise ValidationFailedError.of("query", "must be without zero characters")
    return HealthQuery(
        owner_source=ownerSourceName,
        owner_id=ownerId,
        severities=_SEVERE if respectMonitoringSeverity else (),
        names=subscriptionNames,
        topics=qualifiedTopicNames,
    )


def _listed() -> Responses:
    documented = answers(UnhealthyRead, many=True, headers=LINK_HEADER)
    line = "billing - The oldest message that waits is 720 s old"
    text: dict[str, Any] = {"schema": {"type": "string"}, "example": line}
    documented[200]["content"][TEXT] = text
    return documented


@router.get("/unhealthy", dependencies=[requires(Role.ANY)], responses=_listed() | errors(400))
async def list_unhealthy(
    request: Request,
    services: ServicesOf,
    *,
    wanted: Annotated[HealthQuery, Depends(_wanted)],
    page: KeyPageOf,
) -> Response:
    """Return unhealthy subscriptions, by topic and name, all or in pages.

    On request the response is text, with one line for each subscription.
    """
    unhealthy = await services.health.unhealthy(wanted, keyed(page, 2))
    full = page.limit is not None and len(unhealthy) == page.limit
    last = unhealthy[-1] if full else None
    link = next_link(request, f"{last.topic}/{last.name}") if last else {}
    found = [UnhealthyRead.of(each) for each in unhealthy]
    if prefers_text(request):
        return PlainTextResponse("\r\n".join(each.line() for each in found), headers=link)
    return answer([each.answered() for each in found], notes=AnswerNotes(extra=link))


@router.get(
    "/alerts",
    dependencies=[requires(Role.ANY)],
    responses=answers(AlertRead, many=True, headers=LINK_HEADER) | errors(400),
)
async def list_alerts(
    request: Request,
    services: ServicesOf,
    *,
    active: Annotated[bool, Query(description="only active alerts")] = True,
    limit: Annotated[str | None, Query(description=f"1 to {LIMIT_MAX}, 100 by default")] = None,
    after: Annotated[
        str | None, Query(description="alerts older than the one with this id")
    ] = None,
) -> Response:
    """Return alerts, the newest first; `Link` leads to older ones.

    Alerts are also published to the topic `angelia.alerts`.
    """
    count = limit_of(limit)
    found = await services.health.alerts(active=active, limit=count, after=after)
    link = next_link(request, found[-1].id) if len(found) == count else {}
    notes = AnswerNotes(extra=link)
    return answer([AlertRead.of(each).answered() for each in found], notes=notes)
