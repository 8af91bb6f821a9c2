"""`…/events/{messageId}/trace`: what happened to a message."""

from typing import Annotated, Final

from fastapi import APIRouter, Path
from starlette.responses import Response

from app.api.access import requires
from app.api.dependencies import ServicesOf, SubscriptionName, TopicName
from app.api.documented import Responses, answers, errors
from app.api.lazy_route import LazyRoute
from app.api.management.inspection.trace_bodies import TraceRead, trace_answered
from app.api.media import AnswerNotes, answer
from app.domain.access.keys import Role
from app.services.inspection.traces import Trace

router = APIRouter(tags=["traces"], route_class=LazyRoute)

# Message ids may contain slashes, because foreign producers choose their own ids.
MessageId = Annotated[str, Path(description="id of the message")]

_LOST: Final = {
    "Angelia-Traces-Lost": {
        "description": "entries, of any message, that are missing of that time",
        "schema": {"type": "integer"},
    },
    "Angelia-Trace": {
        "description": "why there are no entries: no message of that id was traced, or nothing of"
        " that topic or subscription is (see trackingMode)",
        "schema": {"type": "string", "enum": ["unknown-id", "not-tracked"]},
    },
}


def _answers() -> Responses:
    return answers(TraceRead, many=True, headers=_LOST)


@router.get(
    "/topics/{topic}/subscriptions/{name}/events/{messageId:path}/trace",
    dependencies=[requires(Role.READER)],
    responses=_answers() | errors(400, 404),
)
async def trace_at_subscription(
    topic: TopicName,
    name: SubscriptionName,
    messageId: MessageId,  # noqa: N803 - the parameter has Hermes' name
    *,
    services: ServicesOf,
) -> Response:
    """Return what happened to a message, when published and in one subscription, oldest first."""
    return _answer(await services.traces.of_message(messageId, topic=topic, subscription=name))


@router.get(
    "/topics/{topic}/events/{messageId:path}/trace",
    dependencies=[requires(Role.READER)],
    responses=_answers() | errors(404),
)
async def trace_in_topic(
    topic: TopicName,
    messageId: MessageId,  # noqa: N803 - the parameter has Hermes' name
    *,
    services: ServicesOf,
) -> Response:
    """Return what happened to a message, when published and in all subscriptions, oldest first."""
    return _answer(await services.traces.of_message(messageId, topic=topic))


@router.get(
    "/events/{messageId:path}/trace",
    dependencies=[requires(Role.READER)],
    responses=_answers() | errors(),
)
async def trace_anywhere(
    messageId: MessageId,  # noqa: N803 - the parameter has Hermes' name
    *,
    services: ServicesOf,
) -> Response:
    """Return what happened to a message in all topics, oldest first."""
    return _answer(await services.traces.of_message(messageId))


def _answer(trace: Trace) -> Response:
    extra = {"Angelia-Traces-Lost": str(trace.lost)} if trace.lost else {}
    if not trace.entries:
        extra["Angelia-Trace"] = "unknown-id" if trace.tracked else "not-tracked"
    entries = [trace_answered(entry) for entry in trace.entries]
    return answer(entries, notes=AnswerNotes(extra=extra))
