"""Errors in OpenAPI: the codes that each route can return, by status.

A route names its own kinds of errors, and the statuses that it can return
(`app.api.documented.errors`). The usual codes of a status follow from the route: from the names in
its path, from its input, and from whether it changes something.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fastapi import APIRouter
from fastapi.routing import APIRoute

from app.api.access import changes_something
from app.api.bodies.error import ErrorRead
from app.api.codes import OTHER, TIMEOUT, codes, example
from app.api.documented import JSON, USUAL, errors, reference
from app.domain.errors import (
    AngeliaError,
    ChangedMeanwhileError,
    FormatInvalidError,
    GroupNotFoundError,
    JobNotFoundError,
    KeyNotFoundError,
    KeyRefusedError,
    NotFoundError,
    RetransmissionNotFoundError,
    StorageUnavailableError,
    SubscriptionNotFoundError,
    TopicNotFoundError,
    ValidationFailedError,
    WorkerNotFoundError,
)

_SCHEMA: Final = {"$ref": f"#/components/schemas/{ErrorRead.__name__}"}
# The error for each path parameter that may name a missing object.
_NAMED: Final[Mapping[str, type[NotFoundError]]] = {
    "group": GroupNotFoundError,
    "topic": TopicNotFoundError,
    "job": JobNotFoundError,
    "task": JobNotFoundError,
    "simulation": JobNotFoundError,
    "retransmission": RetransmissionNotFoundError,
    "key": KeyNotFoundError,
    "worker": WorkerNotFoundError,
}
_OF_BODIES: Final = (408, 413, 415)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Operation:
    path: str
    documented: Mapping[str, Any]
    changes: bool

    @property
    def takes_body(self) -> bool:
        return "requestBody" in self.documented

    @property
    def takes_json(self) -> bool:
        return self.takes_body and JSON in self.documented["requestBody"]["content"]

    @property
    def asks(self) -> bool:
        """Whether the route has a body, or parameters outside of the path.

        Only then the input of the route can be invalid.
        """
        parameters = self.documented.get("parameters", ())
        return self.takes_body or any(each["in"] != "path" for each in parameters)

    def names(self, parameter: str) -> bool:
        return f"{{{parameter}}}" in self.path


def describe_errors(described: dict[str, Any], routers: Iterable[APIRouter]) -> None:
    """Add to the document, in place, the codes of each response, each with an example.

    Raises:
        LookupError: An error response has no codes.
    """
    writes = {*_changing(routers)}
    for path, operations in described["paths"].items():
        for method, documented in operations.items():
            operation = _Operation(
                path=path, documented=documented, changes=(path, method) in writes
            )
            _complete(operation, documented)
    described["components"]["examples"] = {code: example(code) for code in codes()}


def add_errors(operation: dict[str, Any], *kinds: type[AngeliaError]) -> None:
    """Add these error responses to an operation of the document."""
    for status, answer in rendered(errors(*kinds)).items():
        there = operation["responses"].setdefault(status, answer)
        if _is_error(there):
            there["content"][JSON].setdefault("examples", {}).update(_examples(answer))
    operation["responses"] = dict(sorted(operation["responses"].items()))


def rendered(responses: Mapping[int | str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the responses of `errors`, in the form of FastAPI's document."""
    return {str(status): _rendered(answer) for status, answer in responses.items()}


def _rendered(answer: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in answer.items() if name != "content"}
    content = {JSON: {"schema": dict(_SCHEMA), "examples": dict(_examples(answer))}}
    return {**kept, "content": content}


def _examples(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = answer["content"][JSON].get("examples", {})
    return found


def _changing(routers: Iterable[APIRouter]) -> Iterator[tuple[str, str]]:
    for router in routers:
        for route in router.routes:
            if isinstance(route, APIRoute):
                for method in route.methods or ():
                    if changes_something(route, method):
                        yield route.path_format, method.lower()


def _complete(operation: _Operation, documented: dict[str, Any]) -> None:
    if "500" in documented["responses"]:
        # All routes get this error, because a path or query with a zero character (NUL) is refused
        # everywhere.
        documented["responses"] = rendered(errors(ValidationFailedError)) | documented["responses"]
    if operation.takes_json:
        documented["responses"] = rendered(errors(*_OF_BODIES)) | documented["responses"]
    for status, answer in documented["responses"].items():
        if _is_error(answer):
            examples = answer["content"][JSON].setdefault("examples", {})
            if answer.pop(USUAL, False):
                for code in _usual(int(status), operation):
                    examples.setdefault(code, reference(code))
            if not examples:
                raise LookupError(f"{operation.path} answers {status}: say by which errors")
            answer["content"][JSON]["examples"] = dict(sorted(examples.items()))
    documented["responses"] = dict(sorted(documented["responses"].items()))


def _is_error(answer: Mapping[str, Any]) -> bool:
    return bool(answer.get("content", {}).get(JSON, {}).get("schema") == _SCHEMA)


def _usual(status: int, operation: _Operation) -> Iterator[str]:
    match status:
        case 400:
            yield from _wrong(operation)
        case 404:
            yield from (kind.code for name, kind in _NAMED.items() if operation.names(name))
        case 401:
            yield KeyRefusedError.code
        case 408:
            yield TIMEOUT
        case 412:
            yield ChangedMeanwhileError.code
        case 413 | 415:
            yield ValidationFailedError.code
        case 500:
            yield OTHER
        case 503:
            yield StorageUnavailableError.code
            if operation.changes:
                # A route that changes something can also return the error of a read-only mode.
                yield OTHER
        case _:
            return


def _wrong(operation: _Operation) -> Iterator[str]:
    if operation.asks:
        yield ValidationFailedError.code
    if operation.takes_body:
        yield FormatInvalidError.code
    if operation.names("topic") and operation.names("name"):
        yield SubscriptionNotFoundError.code
