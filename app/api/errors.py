"""Errors as HTTP responses: Hermes' codes, statuses and body form."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

import structlog
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Match

from app.domain.errors import (
    AccessError,
    AngeliaError,
    ChangedMeanwhileError,
    ConflictError,
    DuplicateMessageError,
    FieldProblem,
    FormatInvalidError,
    GroupNameInvalidError,
    GroupNotEmptyError,
    IdempotencyKeyReusedError,
    InvalidQueryError,
    JobEndedError,
    JobQueueFullError,
    KeyMissingError,
    KeyRefusedError,
    MessageRefusedError,
    MessageTimeRefusedError,
    MessageTooLargeError,
    NotFoundError,
    OAuthProviderInUseError,
    OperationDisabledError,
    PingTooSoonError,
    RequestUnderWayError,
    SchemaVersionNotFoundError,
    SecretKeyError,
    SubscriptionNotFoundError,
    ThroughputQuotaError,
    TopicNotEmptyError,
    UnavailableError,
    UnroutableError,
    ValidationFailedError,
)
from app.field_errors import error_text

_log = structlog.get_logger(__name__)

RETRY_AFTER_S: Final = 1
# The authentication scheme that a 401 response names. Basic is accepted too, but is not named,
# because browsers would ask users for a password.
CHALLENGE: Final = 'Bearer realm="angelia"'
_LATER: Final = (
    UnavailableError,
    MessageTimeRefusedError,
    ThroughputQuotaError,
    JobQueueFullError,
    PingTooSoonError,
    RequestUnderWayError,
)
_METHODS: Final = ("DELETE", "GET", "PATCH", "POST", "PUT")

# The HTTP status of each error class. The first class in the list that fits counts, so special
# classes come before general ones. Hermes answers 400 for a missing subscription, and 403 for a
# group or topic that is not empty.
_STATUS: Final[Sequence[tuple[type[AngeliaError], int]]] = (
    (SubscriptionNotFoundError, 400),
    (NotFoundError, 404),
    (GroupNotEmptyError, 403),
    (TopicNotEmptyError, 403),
    (UnroutableError, 409),
    (DuplicateMessageError, 409),
    (JobEndedError, 409),
    (OAuthProviderInUseError, 409),
    (RequestUnderWayError, 409),
    (ChangedMeanwhileError, 412),
    (IdempotencyKeyReusedError, 422),
    (KeyMissingError, 401),
    (KeyRefusedError, 401),
    (AccessError, 403),
    (ConflictError, 400),
    (ValidationFailedError, 400),
    (SchemaVersionNotFoundError, 400),
    (OperationDisabledError, 406),
    (FormatInvalidError, 400),
    (InvalidQueryError, 400),
    (GroupNameInvalidError, 400),
    (MessageTimeRefusedError, 503),
    (MessageRefusedError, 400),
    (MessageTooLargeError, 413),
    (ThroughputQuotaError, 429),
    (JobQueueFullError, 429),
    (PingTooSoonError, 429),
    # A missing or wrong secret key has the status 503, because only the operator can correct this.
    (SecretKeyError, 503),
    (UnavailableError, 503),
)


class RequestRefusedError(Exception):
    """A request is refused before its content is read: for its media type, its size or its time."""

    def __init__(self, status: int, message: str, *, code: str = "VALIDATION_ERROR") -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code


def status_of(error: AngeliaError) -> int:
    """Return the HTTP status of an error; 500 for an error that clients should never get."""
    return status_of_kind(type(error))


def status_of_kind(kind: type[AngeliaError]) -> int:
    """Return the status of all errors of a kind."""
    return next((status for above, status in _STATUS if issubclass(kind, above)), 500)


def error_body(error: AngeliaError) -> dict[str, Any]:
    """Return `{"message", "code"}`, with `details` for wrong fields or stored results."""
    body: dict[str, Any] = {"message": error.message, "code": error.code}
    if isinstance(error, DuplicateMessageError) and error.duplicate_of is not None:
        body["duplicateOf"] = error.duplicate_of
    if isinstance(error, ValidationFailedError):
        body["details"] = [{"path": item.path, "message": item.message} for item in error.details]
    return body


def error_headers(error: AngeliaError) -> Mapping[str, str]:
    """Return headers for the error.

    `Retry-After` (in seconds) is present if a retry may succeed. `WWW-Authenticate` is present if
    the API key is missing or wrong.
    """
    if isinstance(error, KeyMissingError | KeyRefusedError):
        return {"www-authenticate": CHALLENGE}
    return {"retry-after": str(RETRY_AFTER_S)} if isinstance(error, _LATER) else {}


def error_response(error: AngeliaError) -> JSONResponse:
    """Return the whole response for an error."""
    return JSONResponse(error_body(error), status_of(error), error_headers(error))


def install_error_handlers(app: FastAPI) -> None:
    """Install handlers, so that all errors of Angelia and of the framework have the same form."""
    app.add_exception_handler(AngeliaError, _on_angelia_error)
    app.add_exception_handler(RequestRefusedError, _on_refused)
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.add_exception_handler(RequestValidationError, _on_parameter_error)
    app.add_exception_handler(Exception, _on_unexpected)


async def _on_angelia_error(request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, AngeliaError):
        raise error
    if status_of(error) >= HTTPStatus.INTERNAL_SERVER_ERROR:
        _log.warning("request_failed", path=request.url.path, code=error.code, error=error.message)
    return error_response(error)


async def _on_refused(_request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, RequestRefusedError):
        raise error
    return JSONResponse({"message": error.message, "code": error.code}, error.status)


async def _on_http_exception(request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, HTTPException):
        raise error
    message = f"{error.detail}: {request.method} {request.url.path}"
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(_methods(request))
    return JSONResponse({"message": message, "code": "OTHER"}, error.status_code, headers)


def _methods(request: Request) -> Sequence[str]:
    """Return all methods that some route allows for the path of the request."""
    requested = {method: {**request.scope, "method": method} for method in _METHODS}
    found = {
        method
        for method, scope in requested.items()
        if any(route.matches(scope)[0] is Match.FULL for route in request.app.routes)
    }
    return sorted(found | {"HEAD"} if "GET" in found else found)


async def _on_parameter_error(_request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, RequestValidationError):
        raise error
    return error_response(
        ValidationFailedError(
            [
                FieldProblem(path=str(item["loc"][-1]), message=error_text(item))
                for item in error.errors()
            ]
        )
    )


async def _on_unexpected(request: Request, error: Exception) -> JSONResponse:
    # The response does not contain the text of the error, which clients must not see. Starlette
    # raises `error` again after this response, and then the server logs it.
    _log.error("request_broke", path=request.url.path, kind=type(error).__name__)
    return JSONResponse({"message": "Internal error", "code": "OTHER"}, 500)
