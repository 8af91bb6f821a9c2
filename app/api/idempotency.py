"""`Idempotency-Key` for requests that create: a repeated request gets the first response again."""

import re
from collections.abc import Callable, Coroutine
from hashlib import sha256
from typing import Any, Final
from uuid import uuid4

import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive

from app.api.access import caller_of
from app.api.body import MANAGEMENT_BODY_MAX, read_body
from app.api.dependencies import Services
from app.api.lazy_route import LazyRoute
from app.domain.access.keys import NOBODY
from app.domain.errors import StorageUnavailableError, ValidationFailedError
from app.domain.idempotency import KeyedRequest, StoredAnswer
from app.services.idempotent_requests import IdempotentRequests

_log = structlog.get_logger(__name__)

HEADER: Final = "idempotency-key"
# The header that marks a response as a repetition of the first response.
REPEATED: Final = "Angelia-Repeated"
_KEY: Final = re.compile(r"[!-~]{1,128}")
_KEPT: Final = frozenset({"content-type", "etag", "location"})
_KEPT_PREFIX: Final = "angelia-"

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class RepeatableRoute(LazyRoute):
    """A route that runs a POST only once for each caller's `Idempotency-Key` within a day.

    The response is stored after the operation. If the process ends after the operation but before
    the response is stored, a repeated request runs the operation again, and finds what the first
    request created. Errors are not stored.
    """

    def get_route_handler(self) -> Handler:
        """Return a handler that runs FastAPI's handler only once for each idempotency key."""
        handle = super().get_route_handler()

        async def repeatable(request: Request) -> Response:
            key = request.headers.get(HEADER)
            if key is None or request.method != "POST":
                return await handle(request)
            return await _once(request, key, handle)

        return repeatable


async def _once(request: Request, key: str, handle: Handler) -> Response:
    if not _KEY.fullmatch(key):
        message = "must be 1 to 128 printable ASCII characters without spaces"
        raise ValidationFailedError.of("Idempotency-Key", message)
    caller = await caller_of(request)
    if caller is NOBODY:
        # The caller sent no API key, although one is needed. The handler refuses the request, so no
        # response has to be stored.
        return await handle(request)
    raw = await read_body(request.receive, request.headers.raw, size_max=MANAGEMENT_BODY_MAX)
    keyed = KeyedRequest(
        caller=caller.key_id or "", key=key, digest=_digest(request, raw), claim=uuid4().hex
    )
    requests = _services(request).idempotent
    if before := await requests.claim(keyed):
        headers = {**before.headers, REPEATED: "true"}
        return Response(before.body, before.status, headers)
    try:
        response = await handle(Request(request.scope, _given(raw)))
    except BaseException:
        await _give_up(requests, keyed)
        raise
    await _keep(requests, keyed, response)
    return response


async def _give_up(requests: IdempotentRequests, keyed: KeyedRequest) -> None:
    try:
        await requests.give_up(keyed)
    except StorageUnavailableError as error:
        _log.info("request_stays_claimed", reason=error.message)


async def _keep(requests: IdempotentRequests, keyed: KeyedRequest, response: Response) -> None:
    kept = {
        name: value
        for name, value in response.headers.items()
        if name in _KEPT or name.startswith(_KEPT_PREFIX)
    }
    answer = StoredAnswer(status=response.status_code, headers=kept, body=bytes(response.body))
    try:
        await requests.answered(keyed, answer)
    except StorageUnavailableError as error:
        # A response that cannot be stored only causes a warning in the log. The operation is done,
        # and the client must get the response. A repeated request may run the operation again.
        _log.warning("answer_not_kept", reason=error.message)


def _digest(request: Request, raw: bytes) -> bytes:
    target = f"{request.method} {request.url.path}?{request.url.query}"
    return sha256(target.encode() + b"\n" + raw).digest()


def _given(raw: bytes) -> Receive:
    """Return a `receive` function that returns `raw`, the body that was already read."""
    messages: list[Message] = [{"type": "http.request", "body": raw, "more_body": False}]

    async def receive() -> Message:
        return messages.pop() if messages else {"type": "http.disconnect"}

    return receive


def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services
