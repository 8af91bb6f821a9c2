"""`/topics/{topic}/subscriptions`."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.api.dependencies import ServicesOf, SubscriptionName, TopicName
from app.api.documented import (
    APPLIED_HEADER,
    IGNORED_HEADER,
    answers,
    errors,
    takes,
    takes_string,
)
from app.api.media import AnswerNotes, answer, json_request, json_string
from app.api.schemas.metrics import SubscriptionMetricsRead
from app.api.schemas.subscription import (
    SubscriptionBody,
    SubscriptionRead,
    changed_subscription,
    ignored_in_subscription,
    new_subscription,
    state_of,
    subscription_read,
)
from app.services.subscriptions import Acknowledged

router = APIRouter(prefix="/topics/{topic}/subscriptions", tags=["subscriptions"])

_NOTED = APPLIED_HEADER | IGNORED_HEADER
_EXAMPLE = {"name": "billing", "endpoint": "http://127.0.0.1:9000/", "supportTeam": "Billing"}
_STATES = ("ACTIVE", "SUSPENDED")


@router.get("", responses=answers(None) | errors(404))
async def list_subscriptions(topic: TopicName, services: ServicesOf) -> list[str]:
    """The topic's subscriptions, by name."""
    return list(await services.subscriptions.names(topic))


@router.post(
    "",
    status_code=201,
    responses=answers(SubscriptionRead, status=201, headers=_NOTED) | errors(400, 404, 413, 415),
    openapi_extra=takes(SubscriptionBody, _EXAMPLE),
)
async def create_subscription(request: Request, topic: TopicName, services: ServicesOf) -> Response:
    """Create a subscription: it gets every message that is published after the answer."""
    asked = await json_request(request)
    draft = new_subscription(topic, asked.body, strict=asked.strict)
    made = await services.subscriptions.create(draft)
    notes = AnswerNotes(
        ignored=ignored_in_subscription(asked.body),
        applied=made.applied,
        extra={"Location": f"/topics/{topic}/subscriptions/{draft.name}"},
    )
    return answer(subscription_read(made.subscription, made.state), 201, notes)


@router.get("/{name}", responses=answers(SubscriptionRead) | errors(400, 404))
async def get_subscription(
    topic: TopicName, name: SubscriptionName, services: ServicesOf
) -> Response:
    """One subscription; 400 SUBSCRIPTION_NOT_EXISTS when there is none, as in Hermes."""
    return answer(subscription_read(*await services.subscriptions.get(topic, name)))


@router.patch(
    "/{name}",
    responses=answers(SubscriptionRead, headers=_NOTED) | errors(400, 404, 413, 415),
    openapi_extra=takes(SubscriptionBody, {"subscriptionPolicy": {"rate": 50}}, patch=True),
)
@router.put(
    "/{name}",
    responses=answers(SubscriptionRead, headers=_NOTED) | errors(400, 404, 413, 415),
    openapi_extra=takes(SubscriptionBody, {"subscriptionPolicy": {"rate": 50}}, patch=True),
)
async def change_subscription(
    topic: TopicName, name: SubscriptionName, *, request: Request, services: ServicesOf
) -> Response:
    """Change a subscription by a merge patch (both methods, as in Hermes)."""
    asked = await json_request(request)
    changed = await services.subscriptions.change(
        topic,
        name,
        lambda current: changed_subscription(current, asked.body, strict=asked.strict),
    )
    return _noted(changed, ignored_in_subscription(asked.body))


@router.delete("/{name}", responses=answers(None, headers=APPLIED_HEADER) | errors(400, 404))
async def delete_subscription(
    topic: TopicName, name: SubscriptionName, services: ServicesOf
) -> Response:
    """Delete a subscription. Its undelivered messages are kept."""
    applied = await services.subscriptions.delete(topic, name)
    return answer(notes=AnswerNotes(applied=applied))


@router.get("/{name}/state", responses=answers(None) | errors(400, 404))
async def get_state(topic: TopicName, name: SubscriptionName, services: ServicesOf) -> str:
    """Its state as a JSON string."""
    _, state = await services.subscriptions.get(topic, name)
    return state.value


@router.post(
    "/{name}/state",
    responses=answers(SubscriptionRead, headers=APPLIED_HEADER) | errors(400, 404, 413, 415),
    openapi_extra=takes_string("SUSPENDED", _STATES),
)
@router.put(
    "/{name}/state",
    responses=answers(SubscriptionRead, headers=APPLIED_HEADER) | errors(400, 404, 413, 415),
    openapi_extra=takes_string("SUSPENDED", _STATES),
)
async def set_state(
    topic: TopicName, name: SubscriptionName, *, request: Request, services: ServicesOf
) -> Response:
    """Suspend or activate a subscription."""
    state = state_of(await json_string(request))
    return _noted(await services.subscriptions.set_state(topic, name, state))


@router.get("/{name}/metrics", responses=answers(SubscriptionMetricsRead) | errors(400, 404))
async def subscription_metrics(
    topic: TopicName, name: SubscriptionName, services: ServicesOf
) -> Response:
    """Counts of its life, what is open now, and rates per second."""
    return answer(SubscriptionMetricsRead.of(await services.metrics.subscription(topic, name)))


def _noted(changed: Acknowledged, ignored: tuple[str, ...] = ()) -> Response:
    notes = AnswerNotes(ignored=ignored, applied=changed.applied)
    return answer(subscription_read(changed.subscription, changed.state), notes=notes)
