"""The common parts of routes in OpenAPI: keys, roles, and headers with conditions."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from fastapi import APIRouter
from fastapi.routing import APIRoute

from app.api.access import role_of
from app.api.conditional import IF_MATCH
from app.api.idempotency import RepeatableRoute
from app.api.openapi.errors import add_errors
from app.domain.access.keys import Role
from app.domain.errors import (
    IdempotencyKeyReusedError,
    KeyMissingError,
    KeyRefusedError,
    PermissionDeniedError,
    PublishingDeniedError,
    RequestUnderWayError,
)

_SCHEMES: Final[Mapping[str, Any]] = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key (`ang_…`). None is needed where access is not controlled.",
    },
    "basic": {
        "type": "http",
        "scheme": "basic",
        "description": "Any user name, and an API key as password.",
    },
}
_KEY: Final[list[dict[str, list[str]]]] = [{"bearer": []}, {"basic": []}]
_PUBLISHING: Final = frozenset({"/topics/{topic}", "/topics/{topic}/batch"})
_IDEMPOTENCY_KEY: Final[Mapping[str, Any]] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "pattern": "^[!-~]{1,128}$"},
    "description": "sent again under this key within a day, the request gets the answer that it"
    " got, with `Angelia-Repeated: true`",
}
_ROLE: Final = "x-angelia-role"


def describe_access(described: dict[str, Any], routers: Iterable[APIRouter]) -> None:
    """Add to the document which keys and roles callers need. The document is changed in place.

    The routes of publishing are not in `routers`. This function handles them separately.
    """
    described["components"]["securitySchemes"] = dict(_SCHEMES)
    # This holds for each operation that says nothing else.
    described["security"] = _KEY
    for router in routers:
        for route in router.routes:
            if isinstance(route, APIRoute) and route.include_in_schema:
                role = role_of(route)
                for method in route.methods or ():
                    operation = described["paths"][route.path_format][method.lower()]
                    _describe(operation, role)
                    _add_headers(operation, repeatable=_is_repeatable(route, method))
    for path in _PUBLISHING:
        operation = described["paths"][path]["post"]
        operation["security"] = [*_KEY, {}]
        add_errors(operation, KeyMissingError, KeyRefusedError, PublishingDeniedError)


def _describe(operation: dict[str, Any], role: Role) -> None:
    operation[_ROLE] = role.value
    if role is Role.OPEN:
        operation["security"] = []
        return
    add_errors(operation, KeyMissingError, KeyRefusedError)
    if role is not Role.ANY:
        add_errors(operation, PermissionDeniedError)


def _is_repeatable(route: APIRoute, method: str) -> bool:
    return isinstance(route, RepeatableRoute) and method == "POST"


def _add_headers(operation: dict[str, Any], *, repeatable: bool) -> None:
    parameters = operation.setdefault("parameters", [])
    if "412" in operation["responses"]:
        parameters.append(IF_MATCH)
    if repeatable:
        parameters.append(_IDEMPOTENCY_KEY)
        add_errors(operation, RequestUnderWayError, IdempotencyKeyReusedError)
    if not parameters:
        del operation["parameters"]
