"""What OpenAPI says that routes have in common: keys and roles, and headers with conditions."""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final

from fastapi import APIRouter
from fastapi.routing import APIRoute

from app.api.access import role_of
from app.api.conditional import IF_MATCH
from app.api.documented import errors
from app.api.idempotency import RepeatableRoute
from app.api.schemas.error import ErrorRead
from app.domain.access import Role

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


def _refused(description: str, code: str, message: str) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{ErrorRead.__name__}"}
    example = {"message": message, "code": code}
    content = {"application/json": {"schema": schema, "example": example}}
    return {"description": description, "content": content}


_NOT_REPEATED: Final[Mapping[str, Any]] = {
    "409": _refused(
        "It is being answered",
        "IDEMPOTENT_REQUEST_UNDER_WAY",
        "A request with this Idempotency-Key is being answered",
    ),
    "422": _refused(
        "The key was used for another request",
        "IDEMPOTENCY_KEY_REUSED",
        "Idempotency-Key was used for another request",
    ),
}


def describe_access(described: dict[str, Any], routers: Iterable[APIRouter]) -> None:
    """Add to the document, in place, what callers need; publishing has no routes of its own."""
    described["components"]["securitySchemes"] = dict(_SCHEMES)
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
        _add_refusals(operation, 401, 403)


def _describe(operation: dict[str, Any], role: Role) -> None:
    operation[_ROLE] = role.value
    if role is Role.OPEN:
        operation["security"] = []
        return
    operation["security"] = _KEY
    _add_refusals(operation, 401, *(() if role is Role.ANY else (403,)))


def _is_repeatable(route: APIRoute, method: str) -> bool:
    return isinstance(route, RepeatableRoute) and method == "POST"


def _add_headers(operation: dict[str, Any], *, repeatable: bool) -> None:
    parameters = operation.setdefault("parameters", [])
    if "412" in operation["responses"]:
        parameters.append(IF_MATCH)
    if repeatable:
        parameters.append(_IDEMPOTENCY_KEY)
        for status, refusal in _NOT_REPEATED.items():
            operation["responses"].setdefault(status, refusal)
        operation["responses"] = dict(sorted(operation["responses"].items()))
    if not parameters:
        del operation["parameters"]


def _add_refusals(operation: dict[str, Any], *statuses: int) -> None:
    for status in statuses:
        operation["responses"].setdefault(str(status), _refusal(status))
    operation["responses"] = dict(sorted(operation["responses"].items()))


def _refusal(status: int) -> dict[str, Any]:
    if status == HTTPStatus.FORBIDDEN:
        message = "billing may not do this: it takes the role topicOwner"
        return _refused("The key does not allow it", "PERMISSION_DENIED", message)
    documented = errors(status)[status]
    example = documented["content"]["application/json"]["example"]
    return _refused(documented["description"], example["code"], example["message"])
