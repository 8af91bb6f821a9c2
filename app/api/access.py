"""Finds the caller of a request, and checks the role that the route needs.

Each route declares a role::

    @router.delete("/{topic}", dependencies=[requires(Role.TOPIC_OWNER)], …)

The application cannot be created if a route declares no role.
"""

import base64
import binascii
from collections.abc import Iterable
from typing import Annotated, Any, Final

from fastapi import Depends
from fastapi.routing import APIRoute
from starlette.requests import Request

from app.api.dependencies import Services
from app.domain.access.keys import NOBODY, Caller, Role
from app.domain.errors import KeyRefusedError
from app.services.access.audit import act_as
from app.services.access.authorization import Target

_BEARER: Final = b"Bearer "
_READING: Final = frozenset({"GET", "HEAD"})


class Requires:
    """A FastAPI dependency. It checks the caller's role for the topic or subscription in the path.

    If `writes` is true, methods other than GET change something, and read-only modes refuse such
    requests.
    """

    def __init__(self, role: Role, *, writes: bool = True) -> None:
        self.role = role
        self.writes = writes

    async def __call__(self, request: Request) -> Caller:
        """Return the caller, if the caller has the role.

        Raises:
            KeyMissingError: The route needs a key.
            KeyRefusedError: The key is not valid.
            PermissionDeniedError: The caller lacks the role.
            ReadOnlyError: The service is in a mode that forbids changes.
        """
        access = _services(request).access
        caller = await caller_of(request)
        act_as(caller)
        await access.require(caller, self.role, _target(request))
        if self.writes and request.method not in _READING:
            access.require_writable(caller)
        request.state.caller = caller
        return caller


async def caller_of(request: Request) -> Caller:
    """Return the caller; NOBODY without a key.

    Raises:
        KeyRefusedError: The key is not valid.
        StorageUnavailableError: The database cannot be reached.
    """
    return await _services(request).access.caller(token_of(_authorization(request)))


class Unchecked(Requires):
    """A FastAPI dependency that accepts every request, with a valid key, a wrong key, or no key.

    It is for routes about the state of this process.
    """

    def __init__(self) -> None:
        super().__init__(Role.OPEN)

    async def __call__(self, request: Request) -> Caller:
        """Return the anonymous caller."""
        request.state.caller = NOBODY
        return NOBODY


def unchecked() -> Any:  # noqa: ANN401 - the result of FastAPI's Depends
    """Return the entry in a route's `dependencies` that lets every caller use the route."""
    return Depends(Unchecked())


def requires(role: Role, *, writes: bool = True) -> Any:  # noqa: ANN401 - the result of FastAPI's Depends
    """Return the entry in a route's `dependencies` that lets only callers with `role` use it.

    Pass `writes=False` if the route changes nothing although its method is POST. See `Requires`.
    """
    return Depends(Requires(role, writes=writes))


def role_of(route: APIRoute) -> Role:
    """Return the role that the route declares.

    Raises:
        LookupError: The route declares no role.
    """
    found = [each.dependency for each in route.dependencies]
    roles = [each.role for each in found if isinstance(each, Requires)]
    if len(roles) != 1:
        raise LookupError(f"{route.path} must say who may use it: dependencies=[requires(Role.…)]")
    return roles[0]


def changes_something(route: APIRoute, method: str) -> bool:
    """Return whether read-only modes refuse this method of the route."""
    found = [each.dependency for each in route.dependencies]
    return method not in _READING and any(
        each.writes for each in found if isinstance(each, Requires) and each.role is not Role.OPEN
    )


def require_roles(routes: Iterable[object]) -> None:
    """Check that every route declares its role.

    Raises:
        LookupError: A route declares no role.
    """
    for route in routes:
        if isinstance(route, APIRoute):
            role_of(route)


def token_of(authorization: bytes | None) -> bytes | None:
    """Return the token of an `Authorization` header; None without a header.

    With the Bearer scheme, the header has the token. With the Basic scheme, the password is the
    token.

    Raises:
        KeyRefusedError: The header has another scheme.
    """
    if authorization is None:
        return None
    if authorization.startswith(_BEARER):  # most requests use the Bearer scheme
        return authorization[len(_BEARER) :]
    scheme, _, given = authorization.partition(b" ")
    match scheme.lower():
        case b"bearer":
            return given.strip()
        case b"basic":
            return _password(given.strip())
        case _:
            raise KeyRefusedError("Authorization must be Bearer, or Basic with the key as password")


def _password(given: bytes) -> bytes:
    try:
        return base64.b64decode(given, validate=True).partition(b":")[2]
    except (binascii.Error, ValueError) as exc:
        raise KeyRefusedError("What follows Basic is not base64") from exc


def _authorization(request: Request) -> bytes | None:
    found = request.headers.get("authorization")
    return None if found is None else found.encode("latin-1")


def _target(request: Request) -> Target:
    named = request.path_params
    topic = named.get("topic")
    return Target(
        group=named.get("group"),
        topic=topic,
        subscription=named.get("name") if topic is not None else None,
    )


def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


async def _caller(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller


CallerOf = Annotated[Caller, Depends(_caller)]
