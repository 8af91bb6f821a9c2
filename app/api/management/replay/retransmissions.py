"""`…/subscriptions/{name}/retransmissions`: retransmissions that are sent beside new messages."""

from datetime import UTC, datetime
from typing import Annotated, Final

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from app.api.access import requires
from app.api.bodies.base import JsonObject
from app.api.bodies.moments import instant_of, moment_of
from app.api.dependencies import Services, ServicesOf, SubscriptionName, TopicName
from app.api.documented import LINK_HEADER, answers, errors, refusal
from app.api.lazy_route import LazyRoute
from app.api.management.replay.retransmissions_bodies import (
    RetransmissionRead,
    offsets_of,
    retransmissions_read,
    retransmit_body,
    selection_of,
    spans_read,
)
from app.api.media import LIMIT_MAX, AnswerNotes, answer, limit_of
from app.api.pages import next_link
from app.domain.access.keys import Role
from app.services.replay.spans import WantedSpans

router = APIRouter(
    prefix="/topics/{topic}/subscriptions", tags=["subscriptions"], route_class=LazyRoute
)

_ENDED: Final = refusal(
    409, description="It has ended", code="JOB_ENDED", message="Retransmission 4f1c is DONE already"
)

RetransmissionId = Annotated[str, Path(description="id of the retransmission")]


async def requested(
    services: Services, named: tuple[str, str], given: JsonObject, *, dry_run: bool
) -> Response:
    """Request a retransmission that is sent beside new messages.

    The header `Location` of the response has the path of the retransmission.
    """
    topic, name = named
    wanted = _wanted(given, dry_run=dry_run)
    seen = await services.retransmitting.request(topic, name, wanted)
    [item] = seen.items
    where = f"/topics/{topic}/subscriptions/{name}/retransmissions/{item.id}"
    return answer(spans_read(item), 202, AnswerNotes(extra={"Location": where}))


@router.get(
    "/{name}/retransmissions",
    dependencies=[requires(Role.SUBSCRIPTION_OWNER)],
    responses=answers(RetransmissionRead, many=True, headers=LINK_HEADER) | errors(400, 404),
)
async def list_retransmissions(
    request: Request,
    topic: TopicName,
    name: SubscriptionName,
    *,
    services: ServicesOf,
    limit: Annotated[str | None, Query(description=f"1 to {LIMIT_MAX}, 100 by default")] = None,
    after: Annotated[str | None, Query(description="older than the one with this id")] = None,
) -> Response:
    """Return the newest retransmissions of the subscription; `Link` leads to older ones."""
    count = limit_of(limit)
    seen = await services.retransmitting.newest(topic, name, limit=count, after=after)
    link = next_link(request, seen.items[-1].id) if len(seen.items) == count else {}
    listed = [each.answered() for each in retransmissions_read(seen)]
    return answer(listed, notes=AnswerNotes(extra=link))


@router.get(
    "/{name}/retransmissions/{retransmission}",
    dependencies=[requires(Role.SUBSCRIPTION_OWNER)],
    responses=answers(RetransmissionRead) | errors(400, 404),
)
async def get_retransmission(
    topic: TopicName,
    name: SubscriptionName,
    retransmission: RetransmissionId,
    *,
    services: ServicesOf,
) -> Response:
    """Return one retransmission: its state, and how many of its messages are sent."""
    seen = await services.retransmitting.get(topic, name, retransmission)
    [found] = retransmissions_read(seen, with_outcomes=True)
    return answer(found)


@router.delete(
    "/{name}/retransmissions/{retransmission}",
    dependencies=[requires(Role.SUBSCRIPTION_OWNER)],
    responses=answers(RetransmissionRead) | errors(400, 404) | _ENDED,
)
async def cancel_retransmission(
    topic: TopicName,
    name: SubscriptionName,
    retransmission: RetransmissionId,
    *,
    services: ServicesOf,
) -> Response:
    """Cancel a retransmission: messages not sent yet are dropped, those in flight are completed."""
    seen = await services.retransmitting.cancel(topic, name, retransmission)
    [found] = retransmissions_read(seen, with_outcomes=True)
    return answer(found)


def _wanted(given: JsonObject, *, dry_run: bool) -> WantedSpans:
    body, now = retransmit_body(given), datetime.now(UTC)
    return WantedSpans(
        since=None if body.from_ is None else moment_of(body.from_, now=now, path="from"),
        until=instant_of(body.to, path="to"),
        offsets=offsets_of(body),
        selection=selection_of(body),
        share=body.share,
        rate=body.rate,
        dry_run=dry_run or body.dry_run,
    )
