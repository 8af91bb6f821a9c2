"""Request bodies, read up to a limit."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

import orjson
from starlette.requests import Request
from starlette.types import Receive

from app.api.errors import RequestRefusedError
from app.domain.errors import FormatInvalidError, MessageTooLargeError, ValidationFailedError
from app.log.deadlines import CallDeadline

MANAGEMENT_BODY_MAX: Final = 1024 * 1024
BODY_TIMEOUT_S: Final = 10.0
# The maximum number of levels of nested JSON in a body. The JSON parser calls itself once for each
# level. Angelia's own bodies have at most five levels.
NESTING_MAX: Final = 100

Headers = Sequence[tuple[bytes, bytes]]


class ClientGoneError(Exception):
    """The client closed the connection before the whole body was received."""


def header(headers: Headers, name: bytes) -> bytes | None:
    """Return the value of the first header with the lower-case name `name`."""
    for key, value in headers:
        if key == name:
            return value
    return None


async def read_body(
    receive: Receive, headers: Headers, *, size_max: int, timeout_s: float = BODY_TIMEOUT_S
) -> bytes:
    """Return the whole body of at most `size_max` bytes, received within `timeout_s`.

    Raises:
        MessageTooLargeError: The body is larger than `size_max`.
        ClientGoneError: The client closed the connection.
        ValidationFailedError: `Content-Length` is not the size of the body.
        RequestRefusedError: The client is too slow (408).
    """
    try:
        async with asyncio.timeout(timeout_s):
            return await _read(receive, _content_length(headers), size_max)
    except TimeoutError as exc:
        raise _too_slow(timeout_s) from exc


class BodyReader:
    """Reads request bodies as `read_body` does, but with one common timer for all requests."""

    def __init__(self, timeout_s: float = BODY_TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._patience = CallDeadline(timedelta(seconds=timeout_s))

    async def read(self, receive: Receive, headers: Headers, *, size_max: int) -> bytes:
        """Return the whole body of one request, as `read_body` does."""
        try:
            with self._patience.limit():
                return await _read(receive, _content_length(headers), size_max)
        except TimeoutError as exc:
            raise _too_slow(self._timeout_s) from exc


async def read_json(request: Request) -> Any:  # noqa: ANN401 - JSON can have any type
    """Return the body as JSON.

    Raises:
        RequestRefusedError: The body has another media type (415).
        MessageTooLargeError: The body exceeds MANAGEMENT_BODY_MAX (413).
        FormatInvalidError: The body is not JSON.
    """
    _require_json(request.headers.get("content-type"))
    return json_of(
        await read_body(request.receive, request.headers.raw, size_max=MANAGEMENT_BODY_MAX)
    )


async def read_text(request: Request) -> str:
    """Return the body as text, after a check that the text is JSON.

    The errors are the same as those of `read_json`.
    """
    _require_json(request.headers.get("content-type"))
    raw = await read_body(request.receive, request.headers.raw, size_max=MANAGEMENT_BODY_MAX)
    json_of(raw)
    return raw.decode()


def json_of(raw: bytes) -> Any:  # noqa: ANN401 - JSON can have any type
    """Parse a JSON body of at most NESTING_MAX levels.

    Raises:
        FormatInvalidError: The body is not JSON, or has too many levels.
    """
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError as exc:
        message = f"The body is not JSON: {exc}"
        raise FormatInvalidError(message) from exc
    if _is_deeper(body, NESTING_MAX):
        message = f"The body is not JSON of at most {NESTING_MAX} levels"
        raise FormatInvalidError(message)
    return body


def _is_deeper(body: object, levels: int) -> bool:
    """Whether objects and lists in `body` are nested more than `levels` deep."""
    level = [body]
    for _ in range(levels):
        level = [
            below
            for each in level
            if isinstance(each, dict | list)
            for below in (each.values() if isinstance(each, dict) else each)
        ]
    return any(isinstance(each, dict | list) for each in level)


async def _read(receive: Receive, declared: int | None, size_max: int) -> bytes:
    # A body is refused before it is read if `Content-Length` is too large. The server then drops
    # the body while the client reads the response.
    if declared is not None and declared > size_max:
        raise too_large(size_max)
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        part, more = await _next_part(receive)
        size += len(part)
        if size > size_max:
            raise too_large(size_max)
        parts.append(part)
    if declared is not None and declared != size:
        raise ValidationFailedError.of("Content-Length", f"is {declared}, but {size} bytes came")
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def _next_part(receive: Receive) -> tuple[bytes, bool]:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientGoneError
    return message.get("body", b""), message.get("more_body", False)


def _content_length(headers: Headers) -> int | None:
    text = header(headers, b"content-length")
    return int(text[:20]) if text and text.isdigit() else None


def _too_slow(timeout_s: float) -> RequestRefusedError:
    message = f"Timeout while reading message after {int(timeout_s * 1000)} milliseconds"
    return RequestRefusedError(408, message, code="TIMEOUT")


def too_large(size_max: int) -> MessageTooLargeError:
    """Return the error for a body above the limit."""
    return MessageTooLargeError(f"The body is larger than the limit of {size_max} bytes")


def media_type(content_type: str | None) -> str:
    """Return the `Content-Type` without parameters in lower case; empty if missing."""
    return (content_type or "").partition(";")[0].strip().lower()


def _require_json(content_type: str | None) -> None:
    media = media_type(content_type)
    if media != "application/json" and not media.endswith("+json"):
        message = f"Content-Type must be application/json, not {content_type or 'absent'}"
        raise RequestRefusedError(415, message)
