"""`/topics/{topic}/subscriptions/{name}/retransmission`."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from app.api.access import requires
from app.api.dependencies import ServicesOf, SubscriptionName, TopicName
from app.api.documented import (
    APPLIED_HEADER,
    IGNORED_HEADER,
    Responses,
    answers,
    errors,
    takes,
)
from app.api.idempotency import RepeatableRoute
from app.api.media import AnswerNotes, answer, instant_of, json_request
from app.api.schemas.base import JsonObject, OtherFields, Rules, ignored_paths, parse
from app.api.schemas.redrive import (
    RedriveBody,
    RedriveRead,
    ignored_in_redrive,
    redrive_body,
    redrive_read,
)
from app.api.schemas.retransmission import (
    CLUSTER,
    PartitionOffsetRead,
    RetransmissionBody,
    offsets_by_cluster,
)
from app.domain.access import Role
from app.domain.errors import ValidationFailedError
from app.domain.redrive import RedriveFilter

router = APIRouter(
    prefix="/topics/{topic}/subscriptions", tags=["subscriptions"], route_class=RepeatableRoute
)

_ANSWER: Final[Responses] = {
    200: {
        "description": "Where it goes on, by cluster",
        "model": dict[str, list[PartitionOffsetRead]],
        "headers": APPLIED_HEADER,
        "content": {
            "application/json": {
                "example": {
                    CLUSTER: [{"topic": {"value": "shop.orders"}, "partition": 0, "offset": 42}]
                }
            }
        },
    }
}
_EXAMPLE: Final = {"retransmissionDate": "2026-01-31T12:00:00Z"}
_REDRIVE_EXAMPLE: Final = {
    "only": "discarded",
    "from": "2026-01-31T12:00:00Z",
    "statusCodes": [400, 404],
}
_FIELD: Final = "retransmissionDate"
_AGO: Final = re.compile(r"-([0-9]{1,6})([mhd])")
_UNITS: Final = {
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}

DryRun = Annotated[bool, Query(alias="dryRun", description="only say where it would go on")]


@router.put(
    "/{name}/retransmission",
    dependencies=[requires(Role.SUBSCRIPTION_OWNER)],
    responses=_ANSWER | errors(400, 404, 413, 415),
    openapi_extra=takes(RetransmissionBody, _EXAMPLE),
)
async def move_subscription(
    topic: TopicName,
    name: SubscriptionName,
    *,
    request: Request,
    services: ServicesOf,
    dry_run: DryRun = False,
) -> Response:
    """Send again all that was published since a time, or skip what was published before it.

    The subscription is moved there as a whole, active or suspended, and goes on from there at its
    rate: new messages come after the old ones. Filters and times to live hold as ever.
    """
    asked = await json_request(request)
    moment = _moment_in(asked.body, now=datetime.now(UTC), strict=asked.strict)
    moved = await services.seeking.seek(topic, name, to=moment, dry_run=dry_run)
    ignored = ignored_paths(RetransmissionBody, asked.body, OtherFields())
    notes = AnswerNotes(ignored=ignored, applied=moved.applied)
    return answer(offsets_by_cluster(moved), notes=notes)


@router.post(
    "/{name}/retransmission",
    dependencies=[requires(Role.SUBSCRIPTION_OWNER)],
    responses=answers(RedriveRead, description="Sent again", headers=IGNORED_HEADER)
    | errors(400, 404, 413, 415),
    openapi_extra=takes(RedriveBody, _REDRIVE_EXAMPLE),
)
async def redrive(
    topic: TopicName, name: SubscriptionName, *, request: Request, services: ServicesOf
) -> Response:
    """Send discarded messages again, to this subscription alone.

    Each request sends up to 1,000 messages (16 MiB), the oldest discards first; while there are
    `more`, ask again. They come as they were published, after what waits by now, and with
    `Hermes-Retransmission`. A suspended subscription gets them when it is resumed.
    """
    asked = await json_request(request)
    body = redrive_body(asked.body, strict=asked.strict)
    act = services.redriving.preview if body.dry_run else services.redriving.redrive
    done = await act(topic, name, _redrive_filter(body))
    notes = AnswerNotes(ignored=ignored_in_redrive(asked.body))
    return answer(redrive_read(done, dry_run=body.dry_run), notes=notes)


def _redrive_filter(body: RedriveBody) -> RedriveFilter:
    return RedriveFilter(
        since=instant_of(body.from_, path="from"),
        until=instant_of(body.to, path="to"),
        reason=body.reason,
        statuses=tuple(body.status_codes or ()),
        message_ids=tuple(body.message_ids or ()),
        again=body.again,
    )


def _moment_in(body: JsonObject, *, now: datetime, strict: bool) -> datetime:
    """The time that a body names; ValidationFailedError."""
    wanted = parse(RetransmissionBody, body, Rules(others=OtherFields(), strict=strict))
    text = wanted.retransmission_date
    if ago := _AGO.fullmatch(text):
        try:
            return now - int(ago[1]) * _UNITS[ago[2]]
        except OverflowError:
            return datetime.min.replace(tzinfo=UTC)
    moment = instant_of(text, path=_FIELD)
    if moment is None:
        raise ValidationFailedError.of(_FIELD, "must not be empty")
    return moment
