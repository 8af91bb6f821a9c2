"""The errors that the client raises.

::

    ClientError                     the base class; `message` is for people
    ├── UnreachableError            no response: no connection, or the time was over
    ├── NotUnderstoodError          a response that is not from Angelia's API
    └── RefusedError                an error of the API: status, code, details
        ├── InvalidError                the request has wrong values; see `details`
        ├── AccessDeniedError           the API key is missing, wrong, or lacks a permission
        ├── NotFoundError               the object of the request does not exist
        ├── ConflictError               the request conflicts with the current state
        │   └── DuplicateError              the topic already has the message: duplicate_of
        ├── ThrottledError              too many requests, or one too soon: try again later
        └── ServiceError                the service failed: try again after `retry_after`

The codes of errors are stable, for example `TOPIC_NOT_EXISTS`. The API's document, openapi.yaml,
has all codes and their statuses.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from typing import Any, Final

DUPLICATE: Final = "DUPLICATE_MESSAGE"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldProblem:
    """One wrong field of a body: its path (`subscriptionPolicy.rate`), and what is wrong."""

    path: str
    message: str


class ClientError(Exception):
    """The base class of all errors of the client. `message` is for people."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class UnreachableError(ClientError):
    """There was no response. A message that was published may be stored anyway."""


class NotUnderstoodError(ClientError):
    """The response is not from Angelia's API. Check the address."""


class RefusedError(ClientError):
    """The API has responded with an error.

    Attributes:
        status: The HTTP status.
        code: Angelia's code for the error; empty if another server responded.
        body: The whole response, if it is a JSON object.
        retry_after: How long to wait before another attempt, if the API says so.
        details: The wrong fields of the request.
    """

    def __init__(self, status: int, body: Mapping[str, Any], retry_after: timedelta | None) -> None:
        super().__init__(str(body.get("message") or f"the API answered with status {status}"))
        self.status = status
        self.code = str(body.get("code", ""))
        self.body = body
        self.retry_after = retry_after
        self.details = tuple(_problems(body.get("details")))


class InvalidError(RefusedError):
    """The request has a wrong value. `details` has the name of its field."""


class AccessDeniedError(RefusedError):
    """The API key is missing or not valid, or has no permission for the request."""


class NotFoundError(RefusedError):
    """The request names an object that does not exist."""


class ConflictError(RefusedError):
    """The request conflicts with the current state.

    The object exists already, is not empty, or has changed.
    """


class DuplicateError(ConflictError):
    """The message was stored before, and its topic refuses duplicates."""

    @property
    def duplicate_of(self) -> str | None:
        """The id of the stored message, if known."""
        found = self.body.get("duplicateOf")
        return found if isinstance(found, str) else None


class ThrottledError(RefusedError):
    """There were too many requests, or the request came too soon. The same request works later."""


class ServiceError(RefusedError):
    """The service, or a part that it needs, failed."""


_STATUSES: Final[Mapping[int, type[RefusedError]]] = {
    HTTPStatus.UNAUTHORIZED: AccessDeniedError,
    HTTPStatus.FORBIDDEN: AccessDeniedError,
    HTTPStatus.NOT_FOUND: NotFoundError,
    HTTPStatus.REQUEST_TIMEOUT: ServiceError,
    HTTPStatus.CONFLICT: ConflictError,
    HTTPStatus.PRECONDITION_FAILED: ConflictError,
    HTTPStatus.TOO_MANY_REQUESTS: ThrottledError,
}
# The error class for each code, by the end of the code. The status alone does not always give the
# right class: in Hermes, a missing subscription or version of a schema has the status 400.
_CODES: Final[Sequence[tuple[str, type[RefusedError]]]] = (
    (DUPLICATE, DuplicateError),
    ("_NOT_EXISTS", NotFoundError),
    ("_NOT_EXIST", NotFoundError),
    ("_ALREADY_EXISTS", ConflictError),
    ("_NOT_EMPTY", ConflictError),
)


def refusal(
    status: int, body: Mapping[str, Any], *, retry_after: timedelta | None = None
) -> RefusedError:
    """Return the error for a response. `body` is empty if the response was not a JSON object."""
    code = str(body.get("code", ""))
    kind = next((kind for end, kind in _CODES if code.endswith(end)), None)
    return (kind or _kind_of(status))(status, body, retry_after)


def _kind_of(status: int) -> type[RefusedError]:
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return ServiceError
    return _STATUSES.get(status, InvalidError)


def _problems(details: object) -> Sequence[FieldProblem]:
    listed = details if isinstance(details, list) else []
    return [
        FieldProblem(path=str(each.get("path", "")), message=str(each.get("message", "")))
        for each in listed
        if isinstance(each, dict)
    ]
