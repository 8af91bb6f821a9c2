"""`/keys`: the keys of the API's callers."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from app.api.access import requires
from app.api.bodies.moments import instant_of
from app.api.dependencies import ServicesOf
from app.api.documented import LINK_HEADER, answers, errors, takes
from app.api.lazy_route import LazyRoute
from app.api.management.access.key_bodies import (
    EXAMPLE,
    KeyBody,
    KeyRead,
    MadeKeyRead,
    key_body,
    key_read,
    made_key_read,
    scopes_of,
)
from app.api.media import LIMIT_MAX, AnswerNotes, answer, json_request, limit_of
from app.api.pages import next_link
from app.domain.access.keys import Role
from app.domain.errors import ValidationFailedError
from app.services.access.keys import KeyDraft

router = APIRouter(prefix="/keys", tags=["access"], route_class=LazyRoute)

KeyId = Annotated[str, Path(description="id of the key: 12 characters")]


@router.post(
    "",
    dependencies=[requires(Role.ADMIN)],
    status_code=201,
    responses=answers(MadeKeyRead, status=201) | errors(400, 413, 415),
    openapi_extra=takes(KeyBody, EXAMPLE),
)
async def create_key(request: Request, services: ServicesOf) -> Response:
    """Create a key. Only this response contains its token, `key`."""
    requested = await json_request(request)
    wanted = key_body(requested.body)
    draft = KeyDraft(name=wanted.name, scopes=scopes_of(wanted), expires_at=_expiry(wanted))
    made = await services.keys.create(draft)
    location = {"Location": f"/keys/{made.key.id}", "Cache-Control": "no-store"}
    notes = AnswerNotes(extra=location)
    return answer(made_key_read(made), 201, notes)


@router.get(
    "",
    dependencies=[requires(Role.ADMIN)],
    responses=answers(KeyRead, many=True, headers=LINK_HEADER) | errors(400),
)
async def list_keys(
    request: Request,
    services: ServicesOf,
    *,
    limit: Annotated[str | None, Query(description=f"1 to {LIMIT_MAX}, 100 by default")] = None,
    after: Annotated[str | None, Query(description="keys after this id")] = None,
) -> Response:
    """Return all keys by id, also expired and revoked ones; `Link` leads to the next page."""
    wanted = limit_of(limit)
    found = await services.keys.page(limit=wanted, after=after)
    link = next_link(request, found[-1].id) if len(found) == wanted else {}
    return answer([key_read(key).answered() for key in found], notes=AnswerNotes(extra=link))


@router.get("/{key}", dependencies=[requires(Role.ADMIN)], responses=answers(KeyRead) | errors(404))
async def get_key(key: KeyId, services: ServicesOf) -> Response:
    """Return one key."""
    return answer(key_read(await services.keys.get(key)))


@router.delete(
    "/{key}", dependencies=[requires(Role.ADMIN)], responses=answers(KeyRead) | errors(404)
)
async def revoke_key(key: KeyId, services: ServicesOf) -> Response:
    """Revoke a key. This process refuses the key immediately, and others soon."""
    return answer(key_read(await services.keys.revoke(key)))


def _expiry(wanted: KeyBody) -> datetime | None:
    if wanted.expires_in is not None:
        return datetime.now(UTC) + timedelta(seconds=wanted.expires_in)
    expiry = instant_of(wanted.expires_at, path="expiresAt")
    try:
        return None if expiry is None else expiry.astimezone(UTC)
    except OverflowError as exc:
        # The database stores times in UTC.
        raise ValidationFailedError.of("expiresAt", "is out of range in UTC") from exc
