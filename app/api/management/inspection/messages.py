"""`/topics/{topic}/messages`: search for messages in the log."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from app.api.access import requires
from app.api.bodies.moments import instant_of
from app.api.dependencies import ServicesOf, TopicName
from app.api.documented import answers, errors
from app.api.lazy_route import LazyRoute
from app.api.management.inspection.message_bodies import MessageRead, message_read
from app.api.media import LIMIT_MAX, AnswerNotes, answer, limit_of
from app.api.pages import next_link
from app.domain.access.keys import Role
from app.domain.errors import LogUnavailableError, TooManySearchesError
from app.services.inspection.search import Sought

router = APIRouter(tags=["messages"], route_class=LazyRoute)

SINCE_DEFAULT: Final = timedelta(hours=1)


@router.get(
    "/topics/{topic}/messages",
    dependencies=[requires(Role.READER)],
    responses=answers(MessageRead, many=True)
    | errors(400, 404, LogUnavailableError, TooManySearchesError),
)
async def find_messages(  # noqa: PLR0913 - the parameters are filters of the query
    topic: TopicName,
    *,
    request: Request,
    services: ServicesOf,
    key: Annotated[str | None, Query(description="the message's Partition-Key")] = None,
    path: Annotated[str | None, Query(description="a JSONPath into the body: $.order.id")] = None,
    value: Annotated[
        str | None, Query(description="what the path finds: a string's text, or JSON as 42, true")
    ] = None,
    message_id: Annotated[
        str | None, Query(alias="messageId", description="the message's id")
    ] = None,
    text: Annotated[str | None, Query(description="part of the body")] = None,
    since: Annotated[
        str | None, Query(description="RFC 3339 or ms, inclusive; an hour ago by default")
    ] = None,
    until: Annotated[str | None, Query(description="RFC 3339 or ms, exclusive; now")] = None,
    limit: Annotated[str | None, Query(description=f"1 to {LIMIT_MAX}, 100 by default")] = None,
    after: Annotated[str | None, Query(description="from the `Link` of the page before")] = None,
) -> Response:
    """Return messages published between two times that the log still has, by partition.

    One call reads for three seconds, or 32 MiB. `Link` leads on, even if nothing was found so far.
    """
    end = instant_of(until, path="until") or datetime.now(UTC)
    sought = Sought(
        since=instant_of(since, path="since") or end - SINCE_DEFAULT,
        until=end,
        key=None if key is None else key.encode("utf-8", "replace"),
        path=path,
        value=value,
        message_id=None if message_id is None else message_id.encode("utf-8", "replace"),
        text=None if text is None else text.encode("utf-8", "replace"),
    )
    page = await services.searching.page(topic, sought, limit=limit_of(limit), after=after)
    # The link to the next page has the same times as this request, so that the next page contains
    # no later messages.
    window = {"since": sought.since.isoformat(), "until": sought.until.isoformat()}
    link = next_link(request, page.after, **window) if page.after else {}
    found = [message_read(message).answered() for message in page.messages]
    return answer(found, notes=AnswerNotes(extra=link))
