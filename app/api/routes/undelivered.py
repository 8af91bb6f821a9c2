"""`…/undelivered`: what a subscription did not get."""

from typing import Annotated, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from app.api.dependencies import ServicesOf, SubscriptionName, TopicName
from app.api.documented import answers, errors
from app.api.media import LIMIT_MAX, AnswerNotes, answer, instant_of, limit_of, status_code_of
from app.api.schemas.undelivered import UndeliveredRead, undelivered_read
from app.services.undelivered import Wanted

router = APIRouter(prefix="/topics/{topic}/subscriptions/{name}/undelivered", tags=["undelivered"])

_DISCARDED: Final = "DISCARDED"


@router.get("/last", responses=answers(UndeliveredRead) | errors(400, 404))
async def last_undelivered(
    topic: TopicName, name: SubscriptionName, services: ServicesOf
) -> Response:
    """The newest discarded message; an empty 404 when there is none."""
    last = await services.undelivered.last(topic, name)
    return answer(undelivered_read(last)) if last else answer(None, 404)


@router.get("", responses=answers(UndeliveredRead, many=True) | errors(400, 404))
async def list_undelivered(  # noqa: PLR0913 - the path's names and the query's filters
    topic: TopicName,
    name: SubscriptionName,
    *,
    request: Request,
    services: ServicesOf,
    since: Annotated[str | None, Query(description="RFC 3339 or ms, inclusive")] = None,
    until: Annotated[str | None, Query(description="RFC 3339 or ms, exclusive")] = None,
    status: Annotated[str | None, Query(description="the subscriber's answer, as 404")] = None,
    reason: Annotated[str | None, Query(description="part of the reason")] = None,
    limit: Annotated[str | None, Query(description=f"1 to {LIMIT_MAX}, 100 by default")] = None,
    after: Annotated[str | None, Query(description="from the `Link` of the page before")] = None,
) -> Response:
    """Discarded messages, newest first; `Link: rel="next"` leads to the next page."""
    wanted = Wanted(
        limit=limit_of(limit),
        after=after,
        since=instant_of(since, path="since"),
        until=instant_of(until, path="until"),
        status=None if status in {None, "", _DISCARDED} else status_code_of(status),
        reason=reason,
    )
    page = await services.undelivered.page(topic, name, wanted)
    notes = AnswerNotes(extra=_next_link(request, page.after) if page.after else {})
    return answer([undelivered_read(item).answered() for item in page.items], notes=notes)


def _next_link(request: Request, after: str) -> dict[str, str]:
    query = {**request.query_params, "after": after}
    return {"Link": f'<{request.url.path}?{urlencode(query)}>; rel="next"'}
