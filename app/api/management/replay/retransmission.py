"""`/topics/{topic}/subscriptions/{name}/retransmission`."""

from datetime import UTC, datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from app.api.access import requires
from app.api.bodies.base import Ignored, JsonObject, OtherFields, Rules, ignored_fields, parse
from app.api.bodies.moments import instant_of, moment_of
from app.api.dated_body import FIELD, dated_request
from app.api.dependencies import Services, ServicesOf, SubscriptionName, TopicName
from app.api.documented import (
    APPLIED_HEADER,
    IGNORED_HEADER,
    Responses,
    errors,
    list_of,
    schema_reference,
    takes,
)
from app.api.idempotency import RepeatableRoute
from app.api.management.replay.redrive_bodies import (
    RedriveBody,
    RedriveRead,
    redrive_body,
    redrive_read,
)
from app.api.management.replay.retransmission_bodies import (
    CLUSTER,
    PartitionOffsetRead,
    RetransmissionBody,
    offsets_by_cluster,
    offsets_by_partition,
    seek_body,
    seek_offsets,
)
from app.api.management.replay.retransmission_fields import (
    RetransmissionWay,
    require_fitting,
    way_of,
)
from app.api.management.replay.retransmissions import requested
from app.api.management.replay.retransmissions_bodies import SpanRead
from app.api.media import AnswerNotes, JsonRequest, answer
from app.domain.access.keys import Role
from app.domain.discards.redrive import RedriveFilter
from app.domain.errors import JobQueueFullError, LogUnavailableError, MessageTooLargeError
from app.services.replay.seeks import Moved

router = APIRouter(
    prefix="/topics/{topic}/subscriptions", tags=["subscriptions"], route_class=RepeatableRoute
)

_ANSWER: Final[Responses] = {
    200: {
        "description": "Where it goes on, by cluster",
        "headers": APPLIED_HEADER,
        "content": {
            "application/json": {
                "schema": {"type": "object", "additionalProperties": list_of(PartitionOffsetRead)},
                "example": {
                    CLUSTER: [{"topic": {"value": "shop.orders"}, "partition": 0, "offset": 42}]
                },
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
_POST_ANSWER: Final[Responses] = {
    200: {
        "description": "Sent again, or moved: then where it goes on",
        "headers": IGNORED_HEADER | APPLIED_HEADER,
        "content": {
            "application/json": {
                "schema": {"anyOf": [schema_reference(RedriveRead), list_of(PartitionOffsetRead)]}
            }
        },
    },
    202: {
        "description": "To be sent again, from where to where; `Location` leads to how far it is",
        "headers": IGNORED_HEADER,
        "content": {"application/json": {"schema": list_of(SpanRead)}},
    },
}
_DATE: Final = {"type": "string", "example": "-6h"}
_POST_TAKES: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "anyOf": [
                        {"$ref": "#/components/schemas/RedriveBody"},
                        {"$ref": "#/components/schemas/RetransmitBody"},
                        {"$ref": "#/components/schemas/SeekBody"},
                        {"$ref": "#/components/schemas/RetransmissionBody"},
                        _DATE,
                    ]
                },
                "example": _REDRIVE_EXAMPLE,
            },
            "text/plain": {"schema": _DATE, "example": "-6h"},
        },
    }
}

DryRun = Annotated[bool, Query(alias="dryRun", description="only say where it would go on")]


@router.put(
    "/{name}/retransmission",
    dependencies=[requires(Role.SUBSCRIPTION_OWNER)],
    responses=_ANSWER | errors(400, 404, 413, 415, LogUnavailableError),
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
    """Send again everything published since a time, or skip everything published before it.

    The whole subscription moves to that time, whether it is active or suspended. It continues from
    there at its rate: new messages come after the old ones. Filters and times to live apply as
    usual.
    """
    parsed = await dated_request(request)
    moved = await _moved(services, (topic, name), parsed, dry_run=dry_run)
    notes = AnswerNotes(ignored=_ignored(parsed), applied=moved.applied)
    return answer(offsets_by_cluster(moved), notes=notes)


@router.post(
    "/{name}/retransmission",
    dependencies=[requires(Role.SUBSCRIPTION_OWNER)],
    responses=_POST_ANSWER
    | errors(400, 404, 413, 415, MessageTooLargeError, JobQueueFullError, LogUnavailableError),
    openapi_extra=_POST_TAKES,
)
async def redrive(
    topic: TopicName,
    name: SubscriptionName,
    *,
    request: Request,
    services: ServicesOf,
    dry_run: DryRun = False,
) -> Response:
    """Send messages again to this subscription only: discarded ones, or all from a time on.

    With `only: all`, `undelivered` or `missing`, a Spark job chooses any number of messages, which
    are sent beside new ones, with a `share` of the rate.

    With `only: discarded` they are sent immediately. Each request sends up to 1,000 messages (16
    MiB), the oldest discards first; repeat the request while the response has `more`. Messages are
    sent as they were published, after the messages that wait now, and with `Hermes-Retransmission`.
    A suspended subscription gets these messages when it is resumed.

    With `mode: seek` the whole subscription is moved, as by PUT, to a time or to offsets; the
    response has the new position.

    A time alone, in any of its forms (`-6h` as text or as a JSON string, or `retransmissionDate`),
    does the same as PUT; the response is a list, as in Hermes' documents.

    A field that has no effect for the request is refused.
    """
    parsed, named = await dated_request(request), (topic, name)
    match way_of(parsed.body):
        case RetransmissionWay.DATE:
            moved = await _moved(services, named, parsed, dry_run=dry_run)
            notes = AnswerNotes(ignored=_ignored(parsed), applied=moved.applied)
            return answer(offsets_by_partition(moved), notes=notes)
        case RetransmissionWay.SEEK:
            moved = await _sought(services, named, parsed.body, dry_run=dry_run)
            return answer(offsets_by_partition(moved), notes=AnswerNotes(applied=moved.applied))
        case RetransmissionWay.ALL | RetransmissionWay.UNDELIVERED | RetransmissionWay.MISSING:
            return await requested(services, named, parsed.body, dry_run=dry_run)
        case _:
            return await _redriven(services, named, parsed.body, dry_run=dry_run)


async def _redriven(
    services: Services, named: tuple[str, str], given: JsonObject, *, dry_run: bool
) -> Response:
    body = redrive_body(given)
    looks = dry_run or body.dry_run
    act = services.redriving.preview if looks else services.redriving.redrive
    done = await act(*named, _redrive_filter(body))
    return answer(redrive_read(done, dry_run=looks))


def _redrive_filter(body: RedriveBody) -> RedriveFilter:
    return RedriveFilter(
        since=instant_of(body.from_, path="from"),
        until=instant_of(body.to, path="to"),
        reason=body.reason,
        statuses=tuple(body.status_codes or ()),
        message_ids=tuple(body.message_ids or ()),
        again=body.again,
        key=_bytes_of(body.key),
        text=_bytes_of(body.text),
    )


def _bytes_of(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "replace")


async def _moved(
    services: Services, named: tuple[str, str], parsed: JsonRequest, *, dry_run: bool
) -> Moved:
    require_fitting(parsed.body, RetransmissionWay.DATE)
    rules = Rules(others=OtherFields(), strict=parsed.strict)
    wanted = parse(RetransmissionBody, parsed.body, rules)
    moment = moment_of(wanted.retransmission_date, now=datetime.now(UTC), path=FIELD)
    return await services.seeking.seek(*named, to=moment, dry_run=dry_run or wanted.dry_run)


async def _sought(
    services: Services, named: tuple[str, str], given: JsonObject, *, dry_run: bool
) -> Moved:
    body = seek_body(given)
    looks = dry_run or body.dry_run
    if body.from_ is None:
        return await services.seeking.seek_to(*named, offsets=seek_offsets(body), dry_run=looks)
    moment = moment_of(body.from_, now=datetime.now(UTC), path="from")
    return await services.seeking.seek(*named, to=moment, dry_run=looks)


def _ignored(parsed: JsonRequest) -> tuple[Ignored, ...]:
    return ignored_fields(RetransmissionBody, parsed.body, OtherFields())
