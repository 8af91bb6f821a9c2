"""Reads bodies that contain one time: as text, as a JSON string, or in an object."""

import re
from typing import Final

from starlette.requests import Request

from app.api.bodies.base import json_object
from app.api.body import MANAGEMENT_BODY_MAX, json_of, media_type, read_body
from app.api.errors import RequestRefusedError
from app.api.media import JsonRequest, is_strict
from app.domain.errors import ValidationFailedError

FIELD: Final = "retransmissionDate"

# Texts that are a time but not valid JSON: `-6h`, and a date.
_BARE: Final = re.compile(rb"\s*(-[0-9]+[mhd]|[0-9]{4}-[0-9]{2}-[0-9]{2}\S*)\s*")
# The media types of clients that name no type of their own: curl with `-d`, and clients that send
# no `Content-Type`.
_TEXT: Final = frozenset({"text/plain", "application/x-www-form-urlencoded", ""})


async def dated_request(request: Request) -> JsonRequest:
    """Return the body as an object.

    If the body is a text or a JSON string, it becomes the field `retransmissionDate`.

    Raises:
        FormatInvalidError: The body has none of the forms.
        MessageTooLargeError: The body is too large.
        RequestRefusedError: The body has another media type (415).
    """
    media = media_type(request.headers.get("content-type"))
    is_json = media == "application/json" or media.endswith("+json")
    if not is_json and media not in _TEXT:
        message = f"Content-Type must be application/json or text/plain, not {media}"
        raise RequestRefusedError(415, message)
    raw = await read_body(request.receive, request.headers.raw, size_max=MANAGEMENT_BODY_MAX)
    return JsonRequest(body=_object_in(raw, is_json=is_json), strict=is_strict(request))


def _object_in(raw: bytes, *, is_json: bool) -> dict[str, object]:
    if bare := _BARE.fullmatch(raw):
        return {FIELD: bare[1].decode("latin-1")}
    if not is_json and not raw.lstrip().startswith((b"{", b'"')):
        raise ValidationFailedError.of(FIELD, "must be a time like 2026-01-31T12:00:00, or -6h")
    body = json_of(raw)
    return {FIELD: body} if isinstance(body, str) else json_object(body)
