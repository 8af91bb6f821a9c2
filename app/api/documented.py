"""OpenAPI descriptions of routes whose bodies FastAPI does not read or write."""

from collections.abc import Mapping
from typing import Any, Final

from app.api.bodies.base import Schema
from app.api.bodies.error import ErrorRead
from app.api.errors import status_of_kind
from app.domain.errors import AngeliaError

Responses = dict[int | str, dict[str, Any]]

_REF: Final = "#/components/schemas/{}"

JSON: Final = "application/json"
# Marks a response in the description of a route. A marked response gets the usual error codes of
# its status when the OpenAPI document is made.
USUAL: Final = "x-angelia-usual"

_TEXT: Final = {"anyOf": [{"type": "string"}, {"type": "null"}]}
_DESCRIPTIONS: Final[Mapping[int, str]] = {
    400: "The request is wrong",
    401: "Not known",
    403: "Not allowed, or not empty",
    404: "Not found",
    406: "Never done",
    408: "The body did not come in time",
    409: "Not as things are now",
    412: "Changed meanwhile",
    413: "Too large",
    415: "Not of a type that is taken",
    422: "The key was used for another request",
    429: "Too much at once",
    500: "A defect of ours",
    503: "Not now: try again",
}

_LATER: Final = frozenset({429, 503})

IGNORED_HEADER: Final = {
    "Angelia-Ignored-Fields": {
        "description": "fields of the request that had no effect, with commas between them;"
        " behind a misspelt one `; did-you-mean=` and the nearest field",
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


def errors(*documented: int | type[AngeliaError]) -> Responses:
    """Return the error responses of a route, for these statuses and these kinds of errors.

    A status means the errors that usually have this status. 500 and 503 are added to every route.
    See `app.api.openapi.errors`.
    """
    statuses = {each for each in documented if isinstance(each, int)} | {500, 503}
    found = {status: {USUAL: True, **_answer(status)} for status in statuses}
    for kind in documented:
        if not isinstance(kind, int):
            status = status_of_kind(kind)
            answer = found.setdefault(status, _answer(status))
            answer["content"][JSON]["examples"][kind.code] = reference(kind.code)
    return dict(sorted(found.items()))


def reference(code: str) -> dict[str, str]:
    """Return a reference to the example error of this code.

    So the document contains each example only once.
    """
    return {"$ref": f"#/components/examples/{code}"}


def schema_reference(model: type[Schema]) -> dict[str, str]:
    """Return a reference to the schema of `model`. The schema is added to the document later.

    FastAPI does not get the model itself, because it would build a validator for each response of
    each route. That would take half of the start time.
    """
    return {"$ref": _REF.format(model.__name__)}


def list_of(model: type[Schema]) -> dict[str, Any]:
    """Return the schema of a list of this model."""
    return {"type": "array", "items": schema_reference(model)}


def answers(
    model: type[Schema] | None,
    *,
    status: int = 200,
    description: str = "Done",
    headers: Mapping[str, Any] | None = None,
    many: bool = False,
) -> Responses:
    """Return the success response of a route: one `model`, or with `many` a list of them."""
    documented: dict[str, Any] = {"description": description}
    if headers:
        documented["headers"] = dict(headers)
    if model is not None:
        schema = list_of(model) if many else schema_reference(model)
        documented["content"] = {JSON: {"schema": schema}}
    return {status: documented}


def names_listed() -> Responses:
    """Return the response of a route that lists names, in pages if the client asks for pages."""
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
    """Return the `openapi_extra` of a route for its request body.

    The body is a `model`. With `patch`, it is a merge patch of a `model`.
    """
    schema: dict[str, Any] = dict(schema_reference(model))
    if patch:
        schema = {
            "type": "object",
            "description": f"Any fields of {model.__name__}; null resets one to its default.",
        }
    return {"requestBody": _body(schema, example) | {"required": required}}


def takes_string(example: str, values: tuple[str, ...]) -> dict[str, Any]:
    """Return the `openapi_extra` of a route whose request body is one of a few JSON strings."""
    return {"requestBody": _body({"type": "string", "enum": list(values)}, example)}


def _body(schema: Mapping[str, Any], example: object) -> dict[str, Any]:
    content = {"application/json": {"schema": dict(schema), "example": example}}
    return {"required": True, "content": content}


def refusal(status: int, *, description: str, code: str, message: str) -> Responses:
    """Return an error response with a description of its own, not the usual one of the status."""
    answer = _answer(status)
    answer["description"] = description
    answer["content"][JSON]["examples"][code] = {"value": {"message": message, "code": code}}
    return {status: answer}


def _answer(status: int) -> dict[str, Any]:
    documented: dict[str, Any] = {
        "description": _DESCRIPTIONS[status],
        "content": {JSON: {"schema": schema_reference(ErrorRead), "examples": {}}},
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
"""The error of routes that request work from Spark: too many jobs are waiting."""


def asks(**described: str) -> dict[str, Any]:
    """Return the `openapi_extra` of a route for optional query parameters with these descriptions.

    It is for routes that read their parameters themselves, because FastAPI's parsing takes longer
    than a database statement.
    """
    return {"parameters": [_query_parameter(name, about) for name, about in described.items()]}


def _query_parameter(name: str, description: str) -> dict[str, Any]:
    schema = {**_TEXT, "description": description, "title": name.title()}
    where = {"name": name, "in": "query", "required": False}
    return {**where, "schema": schema, "description": description}
