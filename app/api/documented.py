"""What OpenAPI says of routes that read and write their bodies themselves."""

from collections.abc import Mapping
from typing import Any, Final

from app.api.schemas.base import Schema
from app.api.schemas.error import ErrorRead

Responses = dict[int | str, dict[str, Any]]

_REF: Final = "#/components/schemas/{}"

_ERRORS: Final[Mapping[int, tuple[str, str, str]]] = {
    400: (
        "The request is wrong",
        "VALIDATION_ERROR",
        "endpoint must be an http:// or https:// URI",
    ),
    403: ("Not empty", "TOPIC_NOT_EMPTY", "Topic shop.orders still has subscriptions"),
    401: ("Not known", "TOKEN_NOT_PROVIDED", "For this an API key is needed"),
    404: ("Not found", "TOPIC_NOT_EXISTS", "Topic shop.orders does not exist"),
    405: ("Method not allowed", "OTHER", "Method Not Allowed: DELETE /groups"),
    408: ("The body did not come in time", "TIMEOUT", "Timeout while reading message"),
    409: ("Nobody takes it", "UNROUTABLE", "Topic shop.orders has no active subscription"),
    412: ("Changed meanwhile", "PRECONDITION_FAILED", "shop.orders has changed meanwhile"),
    413: ("Too large", "VALIDATION_ERROR", "The body is larger than the limit of 1048576 bytes"),
    415: ("Not JSON", "VALIDATION_ERROR", "Content-Type must be application/json, not text/plain"),
    429: (
        "Too much at once",
        "THROUGHPUT_QUOTA_VIOLATION",
        "Topic shop.orders takes at most 1048576 bytes a second",
    ),
    500: ("A defect of ours", "OTHER", "Internal error"),
    503: ("Not now: try again", "SENDING_TO_KAFKA_TIMEOUT", "Message not acknowledged in time"),
}

_LATER: Final = frozenset({429, 503})

IGNORED_HEADER: Final = {
    "Angelia-Ignored-Fields": {
        "description": "fields of the request that had no effect",
        "schema": {"type": "string"},
    }
}
APPLIED_HEADER: Final = {
    "Angelia-Applied": {
        "description": "whether every live worker has taken the change in",
        "schema": {"type": "string", "enum": ["true", "false"]},
    }
}
LINK_HEADER: Final = {
    "Link": {
        "description": 'with `rel="next"`: the page after this one',
        "schema": {"type": "string"},
    }
}
RETRY_HEADER: Final = {
    "Retry-After": {"description": "seconds", "schema": {"type": "integer"}},
}


def errors(*statuses: int) -> Responses:
    """The error answers of a route; 500 and 503 belong to each."""
    return {status: _error(status) for status in sorted({*statuses, 500, 503})}


def answers(
    model: type[Schema] | None,
    *,
    status: int = 200,
    description: str = "Done",
    headers: Mapping[str, Any] | None = None,
    many: bool = False,
) -> Responses:
    """The answer of a route that succeeds: a `model`, or `many` of them in a list."""
    documented: dict[str, Any] = {"description": description}
    if headers:
        documented["headers"] = dict(headers)
    if model is not None:
        documented["model"] = list[model] if many else model  # type: ignore[valid-type] # built here
    return {status: documented}


def names_listed() -> Responses:
    """The answer of a route that lists names, page by page where it is asked to."""
    listed = {"type": "array", "items": {"type": "string"}}
    return {
        200: {
            "description": "Names, in order",
            "headers": dict(LINK_HEADER),
            "content": {"application/json": {"schema": listed}},
        }
    }


def takes(
    model: type[Schema],
    example: Mapping[str, Any],
    *,
    patch: bool = False,
    required: bool = True,
) -> dict[str, Any]:
    """`openapi_extra` of a route whose body is a `model`, or a merge patch of one."""
    schema: dict[str, Any] = {"$ref": _REF.format(model.__name__)}
    if patch:
        schema = {
            "type": "object",
            "description": f"Any fields of {model.__name__}; null resets one to its default.",
        }
    return {"requestBody": _body(schema, example) | {"required": required}}


def takes_string(example: str, values: tuple[str, ...]) -> dict[str, Any]:
    """`openapi_extra` of a route whose body is one of a few JSON strings."""
    return {"requestBody": _body({"type": "string", "enum": list(values)}, example)}


def _body(schema: Mapping[str, Any], example: object) -> dict[str, Any]:
    content = {"application/json": {"schema": dict(schema), "example": example}}
    return {"required": True, "content": content}


def refusal(status: int, *, description: str, code: str, message: str) -> Responses:
    """An error answer of one route that is not like others of its status."""
    return {status: _answer(status, description, (code, message))}


def _error(status: int) -> dict[str, Any]:
    description, code, message = _ERRORS[status]
    return _answer(status, description, (code, message))


def _answer(status: int, description: str, example: tuple[str, str]) -> dict[str, Any]:
    code, message = example
    documented: dict[str, Any] = {
        "description": description,
        "model": ErrorRead,
        "content": {"application/json": {"example": {"message": message, "code": code}}},
    }
    if status in _LATER:
        documented["headers"] = RETRY_HEADER
    return documented


QUEUE_FULL: Final = refusal(
    429,
    description="Too many jobs wait",
    code="JOB_QUEUE_FULL",
    message="100 jobs wait already: try again when some ended",
)
"""Of routes that ask Spark for something."""
