"""`/topics/{topic}/subscriptions`."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.api.access import CallerOf, requires
from app.api.bodies.base import Ignored
from app.api.conditional import ETAG_HEADER, check, etag, if_unchanged
from app.api.dependencies import (
    DryRun,
    Services,
    ServicesOf,
    SubscriptionName,
    TextsWanted,
    TopicName,
)
from app.api.documented import (
    APPLIED_HEADER,
    IGNORED_HEADER,
    answers,
    errors,
    names_listed,
    takes,
    takes_string,
)
from app.api.idempotency import RepeatableRoute
from app.api.management.catalogue.history_bodies import (
    CreatedSubscriptionRead,
    created_subscription_read,
)
from app.api.management.catalogue.subscription_bodies import (
    NewSubscriptionBody,
    SubscriptionBody,
    changed_subscription,
    ignored_in_subscription,
    new_subscription,
    state_of,
)
from app.api.management.catalogue.subscription_read import SubscriptionRead, subscription_read
from app.api.management.fields.start_position import beginning_in
from app.api.management.health import hermes_metrics
from app.api.management.health.metrics_bodies import LifetimeRead, SubscriptionMetricsRead
from app.api.media import AnswerNotes, answer, json_request, json_string
from app.api.pages import NamePageOf, TrackedOnly, names_answer
from app.domain.access.keys import Caller, Role
from app.domain.catalogue.dead_letter import DeadLetter
from app.domain.catalogue.subscription import Subscription
from app.domain.errors import (
    JobQueueFullError,
    LogUnavailableError,
    SecretKeyMissingError,
    SecretUnreadableError,
    SubscriptionExistsError,
)
from app.domain.streams import ALERTS
from app.services.catalogue.subscriptions import Acknowledged

router = APIRouter(
    prefix="/topics/{topic}/subscriptions", tags=["subscriptions"], route_class=RepeatableRoute
)

_NOTED = APPLIED_HEADER | IGNORED_HEADER | ETAG_HEADER
_STATED = APPLIED_HEADER | ETAG_HEADER
_EXAMPLE = {"name": "billing", "endpoint": "http://127.0.0.1:9000/", "supportTeam": "Billing"}
_CHANGED = (SecretKeyMissingError, SecretUnreadableError)
_MADE = (LogUnavailableError, SecretKeyMissingError)
_STATES = ("ACTIVE", "SUSPENDED")


@router.get("", dependencies=[requires(Role.ANY)], responses=names_listed() | errors(400, 404))
async def list_subscriptions(
    request: Request,
    topic: TopicName,
    services: ServicesOf,
    *,
    page: NamePageOf,
    tracked: TrackedOnly = False,
) -> Response:
    """Return the topic's subscriptions, by name."""
    names = await services.subscriptions.names(topic, page, tracked=tracked)
    return names_answer(request, names, page)


@router.post(
    "",
    dependencies=[requires(Role.CREATOR)],
    status_code=201,
    responses=answers(CreatedSubscriptionRead, status=201, headers=_NOTED)
    | errors(400, 404, 413, 415, SubscriptionExistsError, JobQueueFullError, *_MADE),
    openapi_extra=takes(NewSubscriptionBody, _EXAMPLE),
)
async def create_subscription(
    request: Request, topic: TopicName, services: ServicesOf, *, caller: CallerOf
) -> Response:
    """Create a subscription: it gets every message that is published after the response.

    With `startFrom`, the subscription first gets the messages that the log has since then, each
    once. If the log does not reach back so far, a retransmission sends the archived messages from
    before. `history` describes this retransmission, and counts the messages that are gone.
    """
    requested = await json_request(request)
    draft = new_subscription(topic, requested.body, strict=requested.strict)
    if topic == ALERTS:
        await services.announcer.make_topic()
    await services.access.require_new_subscription(caller, draft)
    await _require_dead_letter(services, caller, draft.dead_letter)
    made = await services.subscriptions.create(draft, beginning_in(requested.body), caller=caller)
    notes = AnswerNotes(
        ignored=ignored_in_subscription(requested.body, new=True),
        applied=made.applied,
        extra={
            "Location": f"/topics/{topic}/subscriptions/{draft.name}",
            **etag(made.subscription),
        },
    )
    return answer(created_subscription_read(made), 201, notes)


@router.get(
    "/{name}",
    dependencies=[requires(Role.ANY)],
    responses=answers(SubscriptionRead, headers=ETAG_HEADER) | errors(400, 404),
)
async def get_subscription(
    topic: TopicName, name: SubscriptionName, services: ServicesOf
) -> Response:
    """Return one subscription; if missing, answer 400 SUBSCRIPTION_NOT_EXISTS, as Hermes does."""
    found, state = await services.subscriptions.get(topic, name)
    return answer(subscription_read(found, state), notes=AnswerNotes(extra=etag(found)))


@router.patch(
    "/{name}",
    dependencies=[requires(Role.SUBSCRIPTION_OWNER)],
    responses=answers(SubscriptionRead, headers=_NOTED)
    | errors(400, 404, 412, 413, 415, *_CHANGED),
    openapi_extra=takes(SubscriptionBody, {"subscriptionPolicy": {"rate": 50}}, patch=True),
)
@router.put(
    "/{name}",
    operation_id="put_subscription",
    dependencies=[requires(Role.SUBSCRIPTION_OWNER)],
    responses=answers(SubscriptionRead, headers=_NOTED)
    | errors(400, 404, 412, 413, 415, *_CHANGED),
    openapi_extra=takes(SubscriptionBody, {"subscriptionPolicy": {"rate": 50}}, patch=True),
)
async def change_subscription(
    topic: TopicName,
    name: SubscriptionName,
    *,
    request: Request,
    services: ServicesOf,
    caller: CallerOf,
    dryRun: DryRun = False,  # noqa: N803 - parameters of the API have names in camelCase
) -> Response:
    """Change a subscription by a merge patch. PUT and PATCH do the same, as in Hermes.

    With `dryRun=true` nothing changes: the response is what the change would make, or its errors.
    """
    requested = await json_request(request)

    def edit(current: Subscription) -> Subscription:
        return changed_subscription(current, requested.body, strict=requested.strict)

    if requested.body.get("deadLetter") is not None:
        current, _ = await services.subscriptions.get(topic, name)
        if (wanted := edit(current).dead_letter) != current.dead_letter:
            await _require_dead_letter(services, caller, wanted)
    changed = await services.subscriptions.change(
        topic, name, if_unchanged(request, edit), caller=caller, dry_run=dryRun
    )
    return _noted(changed, ignored_in_subscription(requested.body))


@router.delete(
    "/{name}",
    dependencies=[requires(Role.SUBSCRIPTION_OWNER)],
    responses=answers(None, headers=APPLIED_HEADER) | errors(400, 404, 412),
)
async def delete_subscription(
    topic: TopicName, name: SubscriptionName, *, request: Request, services: ServicesOf
) -> Response:
    """Delete a subscription. Its undelivered messages stay."""
    applied = await services.subscriptions.delete(topic, name, check=check(request))
    return answer(notes=AnswerNotes(applied=applied))


@router.get(
    "/{name}/state", dependencies=[requires(Role.ANY)], responses=answers(None) | errors(400, 404)
)
async def get_state(topic: TopicName, name: SubscriptionName, services: ServicesOf) -> str:
    """Return the state as a JSON string."""
    _, state = await services.subscriptions.get(topic, name)
    return state.value


@router.post(
    "/{name}/state",
    operation_id="post_state",
    dependencies=[requires(Role.SUBSCRIPTION_OWNER)],
    responses=answers(SubscriptionRead, headers=_STATED) | errors(400, 404, 412, 413, 415),
    openapi_extra=takes_string("SUSPENDED", _STATES),
)
@router.put(
    "/{name}/state",
    dependencies=[requires(Role.SUBSCRIPTION_OWNER)],
    responses=answers(SubscriptionRead, headers=_STATED) | errors(400, 404, 412, 413, 415),
    openapi_extra=takes_string("SUSPENDED", _STATES),
)
async def set_state(
    topic: TopicName, name: SubscriptionName, *, request: Request, services: ServicesOf
) -> Response:
    """Suspend or activate a subscription."""
    state = state_of(await json_string(request))
    changed = await services.subscriptions.set_state(topic, name, state, check=check(request))
    return _noted(changed)


@router.get(
    "/{name}/metrics",
    dependencies=[requires(Role.ANY)],
    responses=answers(SubscriptionMetricsRead) | errors(400, 404),
)
async def subscription_metrics(
    topic: TopicName, name: SubscriptionName, *, services: ServicesOf, texts: TextsWanted
) -> Response:
    """Return counts since the subscription's creation, open messages, and rates.

    `Prefer: figures=texts` requests Hermes' form.
    """
    found = SubscriptionMetricsRead.of(await services.metrics.subscription(topic, name))
    return answer(hermes_metrics.SUBSCRIPTION.of(found.answered()) if texts else found)


@router.get(
    "/{name}/metrics/persistent",
    dependencies=[requires(Role.ANY)],
    responses=answers(LifetimeRead) | errors(400, 404),
)
async def persistent_metrics(
    topic: TopicName, name: SubscriptionName, services: ServicesOf
) -> Response:
    """Return only the counts since the subscription's creation."""
    return answer(LifetimeRead.of(await services.metrics.subscription(topic, name)))


def _noted(changed: Acknowledged, ignored: tuple[Ignored, ...] = ()) -> Response:
    headers = etag(changed.subscription)
    notes = AnswerNotes(ignored=ignored, applied=changed.applied, extra=headers)
    return answer(subscription_read(changed.subscription, changed.state), notes=notes)


async def _require_dead_letter(
    services: Services, caller: Caller, wanted: DeadLetter | None
) -> None:
    """Refuse a dead-letter topic to which the caller may not publish."""
    if wanted is not None:
        await services.access.require_feeding(caller, wanted.topic, path="deadLetter.topic")
