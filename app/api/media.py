"""Common parts of requests and responses of several routes."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

import orjson
from starlette.requests import Request
from starlette.responses import Response

from app import accepted
from app.api.bodies.base import NEAREST_MAX, Ignored, JsonObject, Schema, json_object
from app.api.body import read_json
from app.domain.errors import FormatInvalidError, ValidationFailedError

LIMIT_DEFAULT: Final = 100
LIMIT_MAX: Final = 1000
# The number of bytes that are encoded before other requests get a turn.
_BYTES_PER_TURN: Final = 256 * 1024
# The maximum number of characters of an ignored field's name that a header shows.
_NAME_SHOWN_MAX: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonRequest:
    """A request with a JSON object as its body.

    If `strict` is true, fields that would be ignored are refused.
    """

    body: JsonObject
    strict: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerNotes:
    """What a response reports besides its body.

    Attributes:
        ignored: The fields of the request that had no effect.
        applied: Whether the workers have applied the change; None if there was no change.
        extra: Further headers of the response.
    """

    ignored: Sequence[Ignored] = ()
    applied: bool | None = None
    extra: Mapping[str, str] = field(default_factory=dict)

    def headers(self) -> dict[str, str]:
        """Return these notes as headers of the response."""
        headers = dict(self.extra)
        if names := ", ".join(_shown(each) for each in self.ignored[:NEAREST_MAX]):
            headers["Angelia-Ignored-Fields"] = names
        if self.applied is not None:
            headers["Angelia-Applied"] = "true" if self.applied else "false"
        return headers


async def json_request(request: Request) -> JsonRequest:
    """Return the body and the preferences of `request`.

    The errors are the same as those of `read_json`.
    """
    return JsonRequest(body=json_object(await read_json(request)), strict=is_strict(request))


async def json_request_or_none(request: Request) -> JsonRequest:
    """Return the body and the preferences, as `json_request` does.

    If the request has no body, the result has an empty JSON object as its body.
    """
    headers = request.headers
    if "transfer-encoding" in headers or headers.get("content-length", "0") != "0":
        return await json_request(request)
    return JsonRequest(body={}, strict=is_strict(request))


async def json_string(request: Request) -> str:
    """Return the body, which must be a JSON string.

    Raises:
        FormatInvalidError: The body is no JSON string.
    """
    body = await read_json(request)
    if not isinstance(body, str):
        message = "The body must be a JSON string, with its quotation marks"
        raise FormatInvalidError(message)
    return body


def answer(
    body: Schema | Any | None = None,  # noqa: ANN401 - JSON can have any type
    status: int = 200,
    notes: AnswerNotes | None = None,
) -> Response:
    """Return `body` as JSON (see `Schema.answered`), or an empty response."""
    if body is None:
        return Response(status_code=status, headers=notes.headers() if notes else {})
    if isinstance(body, Schema):
        body = body.answered()
    return answer_of_json(orjson.dumps(body), notes, status)


def answer_of_json(content: bytes, notes: AnswerNotes | None = None, status: int = 200) -> Response:
    """Return a response whose body is encoded already."""
    return Response(content, status, notes.headers() if notes else {}, accepted.JSON)


async def json_array(items: Iterable[JsonObject]) -> bytes:
    """Return a JSON array of `items`. Between large items, other requests get a turn."""
    pieces, size = list[bytes](), 0
    for item in items:
        pieces.append(orjson.dumps(item))
        size += len(pieces[-1])
        if size > _BYTES_PER_TURN:
            await asyncio.sleep(0)
            size = 0
    return b"[" + b",".join(pieces) + b"]"


def limit_of(text: str | None) -> int:
    """Parse the query parameter `limit`.

    Raises:
        ValidationFailedError: The number is not valid.
    """
    if text is None:
        return LIMIT_DEFAULT
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text[:9]) <= LIMIT_MAX:
        raise ValidationFailedError.of("limit", f"must be a whole number, 1 to {LIMIT_MAX}")
    return int(text)


def status_code_of(text: str) -> int:
    """Parse the query parameter `status`, an HTTP status code.

    Raises:
        ValidationFailedError: The text is no status code.
    """
    if not (text.isascii() and text.isdigit() and len(text) == 3):  # noqa: PLR2004 - a status code has three digits
        raise ValidationFailedError.of("status", "must be DISCARDED, or a status code as 404")
    return int(text)


def is_strict(request: Request) -> bool:
    """Whether the request refuses fields that would be ignored (`Prefer: handling=strict`)."""
    return "handling=strict" in _preferences(request)


def wants_texts(request: Request, *, default: bool) -> bool:
    """Whether the response must have metrics as texts, as in Hermes (`Prefer: figures=texts`).

    With `Prefer: figures=numbers` the metrics are numbers. Without both, `default` says what they
    are.
    """
    preferences = _preferences(request)
    if "figures=numbers" in preferences:
        return False
    return default or "figures=texts" in preferences


def _preferences(request: Request) -> list[str]:
    return ",".join(request.headers.getlist("prefer")).replace(" ", "").lower().split(",")


def prefers_text(request: Request) -> bool:
    """Whether the request accepts plain text, and not JSON."""
    return accepted.prefers_text(_accept(request))


def _shown(field: Ignored) -> str:
    """Return the text for a header about an ignored field.

    The text has the name that the sender may have meant, if there is one.
    """
    meant = f"; did-you-mean={field.meant}" if field.meant else ""
    return f"{_header_safe(field.path)}{meant}"


def prefers_json(request: Request) -> bool:
    """Whether the `Accept` header of the request names JSON."""
    return accepted.prefers_json(_accept(request))


def _accept(request: Request) -> str:
    return ",".join(request.headers.getlist("accept"))


def _header_safe(name: str) -> str:
    """Return a field name that is safe in a header. Clients can send any text as a field name."""
    return quote(name, safe=".-_[]$")[:_NAME_SHOWN_MAX]
