"""`…/undelivered`: the messages that subscriptions did not get."""

from collections.abc import Sequence
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from app.api.access import requires
from app.api.bodies.moments import instant_of
from app.api.dependencies import ServicesOf, SubscriptionName, TopicName
from app.api.documented import answers, asks, errors
from app.api.lazy_route import LazyRoute
from app.api.management.discards.undelivered_bodies import UndeliveredRead, undelivered_answered
from app.api.media import (
    LIMIT_MAX,
    AnswerNotes,
    answer,
    answer_of_json,
    json_array,
    limit_of,
    status_code_of,
)
from app.api.pages import next_link
from app.domain.access.keys import Role
from app.domain.discards.undelivered import Undelivered, UndeliveredFilter
from app.services.discards.undelivered import UndeliveredRequest

router = APIRouter(tags=["undelivered"], route_class=LazyRoute)

_DISCARDED: Final = "DISCARDED"
_OF_SUBSCRIPTION: Final = "/topics/{topic}/subscriptions/{name}/undelivered"


_QUERY: Final = asks(
    since="RFC 3339 or ms, inclusive",
    until="RFC 3339 or ms, exclusive",
    status="the subscriber's answer, as 404",
    reason="part of the reason",
    key="the message's Partition-Key",
    messageId="the message's id",
    text="part of the body, as it was published",
    limit=f"1 to {LIMIT_MAX}, 100 by default; a page also ends at 16 MiB of bodies",
    after="from the `Link` of the page before",
)


async def _wanted(request: Request) -> UndeliveredRequest:
    given = request.query_params.get
    status = given("status")
    requested = UndeliveredFilter(
        since=instant_of(given("since"), path="since"),
        until=instant_of(given("until"), path="until"),
        status=None if not status or status == _DISCARDED else status_code_of(status),
        reason=given("reason"),
        key=_bytes_of(given("key")),
        message_id=given("messageId"),
        text=_bytes_of(given("text")),
    )
    return UndeliveredRequest(
        conditions=requested, limit=limit_of(given("limit")), after=given("after")
    )


def _bytes_of(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "replace")


WantedOf = Annotated[UndeliveredRequest, Depends(_wanted)]


@router.get(
    _OF_SUBSCRIPTION + "/last",
    dependencies=[requires(Role.READER)],
    responses=answers(UndeliveredRead) | errors(400, 404),
)
async def last_undelivered(
    topic: TopicName, name: SubscriptionName, services: ServicesOf
) -> Response:
    """Return the newest discarded message; an empty 404 if there is none."""
    last = await services.undelivered.last(topic, name)
    return answer(undelivered_answered(last)) if last else answer(None, 404)


@router.get(
    _OF_SUBSCRIPTION,
    dependencies=[requires(Role.READER)],
    openapi_extra=_QUERY,
    responses=answers(UndeliveredRead, many=True) | errors(400, 404),
)
async def list_undelivered(
    topic: TopicName,
    name: SubscriptionName,
    *,
    request: Request,
    services: ServicesOf,
    wanted: WantedOf,
) -> Response:
    """Return discarded messages, newest first; `Link` leads to the next page."""
    page = await services.undelivered.page(topic, name, wanted)
    return await _answer(request, page.items, page.after)


@router.get(
    "/topics/{topic}/undelivered",
    dependencies=[requires(Role.READER)],
    openapi_extra=_QUERY,
    responses=answers(UndeliveredRead, many=True) | errors(400, 404),
)
async def list_undelivered_of_topic(
    topic: TopicName, *, request: Request, services: ServicesOf, wanted: WantedOf
) -> Response:
    """Return discards of all subscriptions of the topic, also deleted ones, newest first."""
    page = await services.undelivered.of_topic(topic, wanted)
    return await _answer(request, page.items, page.after)


@router.get(
    "/undelivered",
    dependencies=[requires(Role.READER)],
    openapi_extra=_QUERY,
    responses=answers(UndeliveredRead, many=True) | errors(400),
)
async def list_undelivered_of_message(
    *, request: Request, services: ServicesOf, wanted: WantedOf
) -> Response:
    """Return the discards of the message `messageId` in all topics and subscriptions."""
    page = await services.undelivered.anywhere(wanted)
    return await _answer(request, page.items, page.after)


async def _answer(request: Request, items: Sequence[Undelivered], after: str | None) -> Response:
    notes = AnswerNotes(extra=next_link(request, after) if after else {})
    return answer_of_json(await json_array(map(undelivered_answered, items)), notes)
