"""`/workload-constraints`, `/readiness` and `/inactive-topics`: for operators."""

from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from app.api.access import requires
from app.api.bodies.base import Ignored, SchemaT
from app.api.dependencies import ServicesOf, SubscriptionName, TopicName
from app.api.documented import IGNORED_HEADER, answers, errors, takes
from app.api.lazy_route import LazyRoute
from app.api.management.catalogue.operations_bodies import (
    DatacenterRead,
    InactiveTopicRead,
    ReadinessBody,
    SubscriptionConstraintsBody,
    TopicConstraintsBody,
    WorkloadConstraintsRead,
    body_of,
    ignored_in,
)
from app.api.media import AnswerNotes, JsonRequest, answer, json_request
from app.domain.access.keys import Role
from app.domain.errors import (
    ClusterNotFoundError,
    SubscriptionNotFoundError,
    SubscriptionUnconstrainedError,
    TopicNotFoundError,
    TopicUnconstrainedError,
    ValidationFailedError,
)

router = APIRouter(tags=["operations"], route_class=LazyRoute)

_CONSTRAINTS = {"consumersNumber": 4, "reason": "a lot of traffic"}
# The warning that the number of consumers is stored and shown, but has no effect.
_KEPT_ONLY = Ignored("constraints.consumersNumber")
_SET = (
    answers(None, description="Changed", headers=IGNORED_HEADER)
    | answers(None, status=201, description="Set for the first time", headers=IGNORED_HEADER)
    | errors(400, 413, 415, TopicNotFoundError, SubscriptionNotFoundError)
)


@router.get(
    "/workload-constraints",
    dependencies=[requires(Role.ANY)],
    responses=answers(WorkloadConstraintsRead) | errors(),
)
async def list_constraints(services: ServicesOf) -> Response:
    """Return all workload constraints. They have no effect: workers share all topics."""
    return answer(WorkloadConstraintsRead.of(await services.operations.constraints()))


@router.put(
    "/workload-constraints/topic",
    dependencies=[requires(Role.ADMIN)],
    responses=_SET,
    openapi_extra=takes(
        TopicConstraintsBody, {"topicName": "shop.orders", "constraints": _CONSTRAINTS}
    ),
)
async def constrain_topic(request: Request, services: ServicesOf) -> Response:
    """Store a topic's constraints, which have no effect; 201 if the topic had none."""
    requested = await json_request(request)
    body = _constraints(TopicConstraintsBody, requested)
    wanted = body.constraints.to_domain()
    made = await services.operations.constrain(wanted, topic=body.topic_name)
    return _kept(TopicConstraintsBody, requested, made=made)


@router.put(
    "/workload-constraints/subscription",
    dependencies=[requires(Role.ADMIN)],
    responses=_SET,
    openapi_extra=takes(
        SubscriptionConstraintsBody,
        {"subscriptionName": "shop.orders$billing", "constraints": _CONSTRAINTS},
    ),
)
async def constrain_subscription(request: Request, services: ServicesOf) -> Response:
    """Store a subscription's constraints, which have no effect; 201 if it had none."""
    requested = await json_request(request)
    body = _constraints(SubscriptionConstraintsBody, requested)
    topic, name = body.named()
    wanted = body.constraints.to_domain()
    made = await services.operations.constrain(wanted, topic=topic, subscription=name)
    return _kept(SubscriptionConstraintsBody, requested, made=made)


@router.delete(
    "/workload-constraints/topic/{topic}",
    dependencies=[requires(Role.ADMIN)],
    responses=answers(None) | errors(TopicUnconstrainedError),
)
async def unconstrain_topic(topic: TopicName, services: ServicesOf) -> Response:
    """Delete a topic's constraints."""
    await services.operations.unconstrain(topic=topic)
    return answer()


@router.delete(
    "/workload-constraints/subscription/{topic}/{name}",
    dependencies=[requires(Role.ADMIN)],
    responses=answers(None) | errors(SubscriptionUnconstrainedError),
)
async def unconstrain_subscription(
    topic: TopicName, name: SubscriptionName, services: ServicesOf
) -> Response:
    """Delete a subscription's constraints."""
    await services.operations.unconstrain(topic=topic, subscription=name)
    return answer()


@router.get(
    "/readiness/datacenters",
    dependencies=[requires(Role.ADMIN)],
    responses=answers(DatacenterRead, many=True) | errors(),
)
async def list_datacenters(services: ServicesOf) -> Response:
    """Return the only data centre, and whether operators have put it into service."""
    ready = await services.operations.is_ready()
    return answer([DatacenterRead(status="READY" if ready else "NOT_READY").answered()])


@router.post(
    "/readiness/datacenters/{datacenter}",
    dependencies=[requires(Role.ADMIN)],
    status_code=202,
    responses=answers(None, status=202, headers=IGNORED_HEADER)
    | errors(400, 413, 415, ClusterNotFoundError),
    openapi_extra=takes(ReadinessBody, {"isReady": False}),
)
async def set_readiness(
    request: Request,
    datacenter: Annotated[str, Path(description="name of the datacenter", examples=["primary"])],
    services: ServicesOf,
) -> Response:
    """Put the data centre into service, or out of service: then `/status/ready` answers 503."""
    requested = await json_request(request)
    body = body_of(ReadinessBody, requested.body, strict=requested.strict)
    await services.operations.set_ready(datacenter, ready=body.is_ready)
    return answer(None, 202, AnswerNotes(ignored=ignored_in(ReadinessBody, requested.body)))


@router.get(
    "/inactive-topics",
    dependencies=[requires(Role.ADMIN)],
    responses=answers(InactiveTopicRead, many=True) | errors(),
)
async def list_inactive_topics(services: ServicesOf) -> Response:
    """Return topics without messages for 60 days, the longest inactive first."""
    found = await services.activity.inactive()
    return answer([InactiveTopicRead.of(each).answered() for each in found])


def _constraints(model: type[SchemaT], request: JsonRequest) -> SchemaT:
    body = body_of(model, request.body, strict=request.strict)
    if request.strict:
        message = "has no effect: all live workers share each topic"
        raise ValidationFailedError.of(_KEPT_ONLY.path, message)
    return body


def _kept(model: type[SchemaT], request: JsonRequest, *, made: bool) -> Response:
    notes = AnswerNotes(ignored=(_KEPT_ONLY, *ignored_in(model, request.body)))
    return answer(None, 201 if made else 200, notes)
