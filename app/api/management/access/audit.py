"""`/audit`: who changed what."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from app.api.access import requires
from app.api.bodies.moments import instant_of
from app.api.dependencies import ServicesOf
from app.api.documented import LINK_HEADER, answers, errors
from app.api.lazy_route import LazyRoute
from app.api.management.access.audit_bodies import (
    AuditEventRead,
    action_of,
    audit_event_read,
    event_id_of,
)
from app.api.media import LIMIT_MAX, AnswerNotes, answer, limit_of
from app.api.pages import next_link
from app.domain.access.audit import AuditFilter
from app.domain.access.keys import Role

router = APIRouter(prefix="/audit", tags=["access"], route_class=LazyRoute)


@router.get(
    "",
    dependencies=[requires(Role.ADMIN)],
    responses=answers(AuditEventRead, many=True, headers=LINK_HEADER) | errors(400),
)
async def list_events(  # noqa: PLR0913 - each parameter is a filter of the query
    request: Request,
    services: ServicesOf,
    *,
    kind: Annotated[str | None, Query(description="topic, subscription, group, key, …")] = None,
    name: Annotated[str | None, Query(description="of a subscription: topic/name")] = None,
    actor: Annotated[str | None, Query(description="name of the key that was used")] = None,
    action: Annotated[str | None, Query(description="CREATED, UPDATED, REMOVED, …")] = None,
    since: Annotated[str | None, Query(description="RFC 3339 or ms, inclusive")] = None,
    until: Annotated[str | None, Query(description="RFC 3339 or ms, exclusive")] = None,
    limit: Annotated[str | None, Query(description=f"1 to {LIMIT_MAX}, 100 by default")] = None,
    after: Annotated[str | None, Query(description="from the `Link` of the page before")] = None,
) -> Response:
    """Return changes of managed objects, newest first; `Link` leads to the next page."""
    wanted = AuditFilter(
        kind=kind,
        name=name,
        actor=actor,
        action=action_of(action),
        since=instant_of(since, path="since"),
        until=instant_of(until, path="until"),
    )
    count = limit_of(limit)
    found = await services.audit.page(wanted, limit=count, after=event_id_of(after))
    link = next_link(request, str(found[-1].id)) if len(found) == count else {}
    events = [audit_event_read(event).answered() for event in found]
    return answer(events, notes=AnswerNotes(extra=link))
