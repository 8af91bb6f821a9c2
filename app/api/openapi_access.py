"""What OpenAPI says of access: how keys are sent, and the role that each route takes."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from fastapi import APIRouter
from fastapi.routing import APIRoute

from app.api.access import role_of
from app.api.documented import errors
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
_ROLE: Final = "x-angelia-role"


def describe_access(described: dict[str, Any], routers: Iterable[APIRouter]) -> None:
    """Add to the document, in place, what callers need; publishing has no routes of its own."""
    described["components"]["securitySchemes"] = dict(_SCHEMES)
    for router in routers:
        for route in router.routes:
            if isinstance(route, APIRoute):
                role = role_of(route)
                for method in route.methods or ():
                    operation = described["paths"][route.path_format][method.lower()]
                    _describe(operation, role)
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


def _add_refusals(operation: dict[str, Any], *statuses: int) -> None:
    for status in statuses:
        operation["responses"].setdefault(str(status), _refusal(status))
    operation["responses"] = dict(sorted(operation["responses"].items()))


def _refusal(status: int) -> dict[str, Any]:
    documented = errors(status)[status]
    example = documented["content"]["application/json"]
    if status == 403:  # noqa: PLR2004 - Forbidden
        message = "billing may not do this: it takes the role topicOwner"
        documented["description"] = "The key does not allow it"
        example = {"example": {"message": message, "code": "PERMISSION_DENIED"}}
    schema = {"$ref": f"#/components/schemas/{ErrorRead.__name__}"}
    content = {"application/json": {"schema": schema, **example}}
    return {"description": documented["description"], "content": content}
