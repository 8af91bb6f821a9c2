"""Answers and request preferences that several routes share."""

from collections.abc import Mapping, Sequence
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
# Of the name of an ignored field, a header has this much.
_NAME_SHOWN_MAX: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonRequest:
    """A request whose body is a JSON object. `strict`: refuse what would be ignored."""

    body: JsonObject
    strict: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerNotes:
    """What an answer says beside its body.

    `ignored`: fields of the request that had no effect. `applied`: whether the workers have taken
    the change in.
    """

    ignored: Sequence[Ignored] = ()
    applied: bool | None = None
    extra: Mapping[str, str] = field(default_factory=dict)

    def headers(self) -> dict[str, str]:
        """The headers that say it."""
        headers = dict(self.extra)
        if names := ", ".join(_shown(each) for each in self.ignored[:NEAREST_MAX]):
            headers["Angelia-Ignored-Fields"] = names
        if self.applied is not None:
            headers["Angelia-Applied"] = "true" if self.applied else "false"
        return headers


async def json_request(request: Request) -> JsonRequest:
    """The body and the preferences of `request`; see `read_json` for what it raises."""
    return JsonRequest(body=json_object(await read_json(request)), strict=is_strict(request))


async def json_request_or_none(request: Request) -> JsonRequest:
    """As `json_request`; a request without a body asks for nothing in particular."""
    headers = request.headers
    if "transfer-encoding" in headers or headers.get("content-length", "0") != "0":
        return await json_request(request)
    return JsonRequest(body={}, strict=is_strict(request))


async def json_string(request: Request) -> str:
    """The body, which must be a JSON string; FormatInvalidError."""
    body = await read_json(request)
    if not isinstance(body, str):
        message = "The body must be a JSON string, with its quotation marks"
        raise FormatInvalidError(message)
    return body


def answer(
    body: Schema | Any | None = None,  # noqa: ANN401 - JSON is of any type
    status: int = 200,
    notes: AnswerNotes | None = None,
) -> Response:
    """`body` as JSON (see `Schema.answered`), or no body at all."""
    headers = notes.headers() if notes else {}
    if body is None:
        return Response(status_code=status, headers=headers)
    if isinstance(body, Schema):
        body = body.answered()
    return Response(orjson.dumps(body), status, headers, accepted.JSON)


def limit_of(text: str | None) -> int:
    """The query parameter `limit`; ValidationFailedError."""
    if text is None:
        return LIMIT_DEFAULT
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text[:9]) <= LIMIT_MAX:
        raise ValidationFailedError.of("limit", f"must be a whole number, 1 to {LIMIT_MAX}")
    return int(text)


def status_code_of(text: str) -> int:
    """The query parameter `status`, a status code of HTTP; ValidationFailedError."""
    if not (text.isascii() and text.isdigit() and len(text) == 3):  # noqa: PLR2004 - as 404
        raise ValidationFailedError.of("status", "must be DISCARDED, or a status code as 404")
    return int(text)


def is_strict(request: Request) -> bool:
    """Whether the request refuses what would be ignored (`Prefer: handling=strict`)."""
    return "handling=strict" in _preferences(request)


def wants_texts(request: Request, *, default: bool) -> bool:
    """Whether figures are to be texts, as in Hermes (`Prefer: figures=texts`, or `numbers`)."""
    preferences = _preferences(request)
    if "figures=numbers" in preferences:
        return False
    return default or "figures=texts" in preferences


def _preferences(request: Request) -> list[str]:
    return ",".join(request.headers.getlist("prefer")).replace(" ", "").lower().split(",")


def prefers_text(request: Request) -> bool:
    """Whether the request accepts plain text, and no JSON."""
    return accepted.prefers_text(_accept(request))


def _shown(field: Ignored) -> str:
    """A field as the header names it, with the one that may have been meant."""
    meant = f"; did-you-mean={field.meant}" if field.meant else ""
    return f"{_header_safe(field.path)}{meant}"


def prefers_json(request: Request) -> bool:
    """Whether the request names JSON among what it accepts."""
    return accepted.prefers_json(_accept(request))


def _accept(request: Request) -> str:
    return ",".join(request.headers.getlist("accept"))


def _header_safe(name: str) -> str:
    """A field name as a header may carry it: a client's key can be any text."""
    return quote(name, safe=".-_[]$")[:_NAME_SHOWN_MAX]
