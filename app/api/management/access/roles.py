"""`/roles` and `/mode`: the permissions of the caller, and whether changes are allowed."""

from typing import Annotated, Final

from fastapi import APIRouter, Query
from starlette.responses import PlainTextResponse, Response

from app.api.access import CallerOf, requires
from app.api.dependencies import ServicesOf, SubscriptionName, TopicName
from app.api.documented import Responses, answers, errors
from app.api.lazy_route import LazyRoute
from app.api.media import answer
from app.domain.access.keys import Caller, Mode, Role
from app.domain.errors import KeyRefusedError, ValidationFailedError
from app.services.access.authorization import AccessService, Target

router = APIRouter(tags=["access"], route_class=LazyRoute)

_MODES: Final = ", ".join(Mode)
_MODE: Final[Responses] = {
    200: {
        "description": "The mode",
        "content": {"text/plain": {"schema": {"type": "string", "enum": [*Mode]}}},
    }
}
_ROLES: Final[Responses] = {
    200: {
        "description": "The caller's roles",
        "content": {
            "application/json": {
                "schema": {"type": "array", "items": {"type": "string"}},
                "example": ["any", "topicOwner"],
            }
        },
    }
}


@router.get(
    "/roles", dependencies=[requires(Role.OPEN)], responses=_ROLES | errors(KeyRefusedError)
)
async def roles(services: ServicesOf, caller: CallerOf) -> Response:
    """Return the caller's global roles (as in Hermes): `any`, `admin`; none without a key."""
    return await _answer(services.access, caller, Target())


@router.get(
    "/roles/topics/{topic}",
    dependencies=[requires(Role.OPEN)],
    responses=_ROLES | errors(KeyRefusedError),
)
async def roles_of_topic(topic: TopicName, services: ServicesOf, caller: CallerOf) -> Response:
    """Return the caller's roles for a topic, which may include `topicOwner`."""
    return await _answer(services.access, caller, Target(topic=topic))


@router.get(
    "/roles/topics/{topic}/subscriptions/{name}",
    dependencies=[requires(Role.OPEN)],
    responses=_ROLES | errors(KeyRefusedError),
)
async def roles_of_subscription(
    topic: TopicName, name: SubscriptionName, services: ServicesOf, *, caller: CallerOf
) -> Response:
    """Return the caller's roles for a subscription, which may include `subscriptionOwner`."""
    return await _answer(services.access, caller, Target(topic=topic, subscription=name))


@router.get("/mode", dependencies=[requires(Role.OPEN)], responses=_MODE | errors(KeyRefusedError))
async def get_mode(services: ServicesOf) -> Response:
    """Return `readWrite`, `readOnly` or `readOnlyAdmin`.

    In the last two only admins can make changes.
    """
    return PlainTextResponse(services.access.mode.value)


@router.post(
    "/mode",
    dependencies=[requires(Role.ADMIN, writes=False)],
    responses=answers(None) | errors(400),
)
async def set_mode(
    services: ServicesOf,
    *,
    mode: Annotated[str | None, Query(description=f"one of {_MODES}")] = None,
) -> Response:
    """Change the mode of all API processes; publishing and deliveries continue."""
    try:
        wanted = Mode(mode or "")
    except ValueError as exc:
        raise ValidationFailedError.of("mode", f"must be one of {_MODES}") from exc
    await services.access.set_mode(wanted)
    return answer()


async def _answer(access: AccessService, caller: Caller, target: Target) -> Response:
    return answer([role.value for role in await access.roles(caller, target)])
