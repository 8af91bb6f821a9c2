"""`/oauth/providers`: the issuers of access tokens for deliveries."""

from typing import Annotated, Final

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from app.api.access import requires
from app.api.dependencies import ServicesOf
from app.api.documented import (
    APPLIED_HEADER,
    IGNORED_HEADER,
    answers,
    errors,
    takes,
)
from app.api.idempotency import RepeatableRoute
from app.api.management.fields.oauth import (
    OAuthProviderBody,
    OAuthProviderRead,
    changed_provider,
    ignored_in_provider,
    new_provider,
    provider_read,
)
from app.api.media import AnswerNotes, answer, json_request
from app.domain.access.keys import Role
from app.domain.errors import (
    OAuthProviderExistsError,
    OAuthProviderInUseError,
    OAuthProviderNotFoundError,
    SecretKeyMissingError,
    SecretUnreadableError,
)

router = APIRouter(prefix="/oauth/providers", tags=["oauth"], route_class=RepeatableRoute)

ProviderName = Annotated[str, Path(description="name of the OAuth provider", examples=["login"])]

_KEPT: Final = (SecretKeyMissingError, SecretUnreadableError)
_EXAMPLE: Final = {
    "name": "login",
    "tokenEndpoint": "https://login.example.com/token",
    "clientId": "angelia",
    "clientSecret": "abc123",
}


@router.get("", dependencies=[requires(Role.ANY)], responses=answers(None) | errors())
async def list_oauth_providers(services: ServicesOf) -> list[str]:
    """Return all OAuth providers, by name."""
    return list(await services.oauth.names())


@router.post(
    "",
    dependencies=[requires(Role.ADMIN)],
    status_code=201,
    responses=answers(OAuthProviderRead, status=201, headers=IGNORED_HEADER)
    | errors(400, 413, 415, OAuthProviderExistsError, SecretKeyMissingError),
    openapi_extra=takes(OAuthProviderBody, _EXAMPLE),
)
async def create_oauth_provider(request: Request, services: ServicesOf) -> Response:
    """Create an OAuth provider, which subscriptions can then name in their `oAuthPolicy`."""
    requested = await json_request(request)
    provider = new_provider(requested.body, strict=requested.strict)
    await services.oauth.create(provider)
    notes = AnswerNotes(
        ignored=ignored_in_provider(requested.body),
        extra={"Location": f"/oauth/providers/{provider.name}"},
    )
    return answer(provider_read(provider), 201, notes)


@router.get(
    "/{name}",
    dependencies=[requires(Role.ANY)],
    responses=answers(OAuthProviderRead) | errors(OAuthProviderNotFoundError),
)
async def get_oauth_provider(name: ProviderName, services: ServicesOf) -> Response:
    """Return one OAuth provider, with its secret masked."""
    return answer(provider_read(await services.oauth.get(name)))


@router.put(
    "/{name}",
    dependencies=[requires(Role.ADMIN)],
    responses=answers(OAuthProviderRead, headers=APPLIED_HEADER | IGNORED_HEADER)
    | errors(400, 413, 415, OAuthProviderNotFoundError, *_KEPT),
    openapi_extra=takes(OAuthProviderBody, {"requestTimeout": 5000}, patch=True),
)
async def change_oauth_provider(
    request: Request, name: ProviderName, services: ServicesOf
) -> Response:
    """Change an OAuth provider by a merge patch; its subscriptions request new tokens."""
    requested = await json_request(request)
    changed = await services.oauth.change(
        name, lambda current: changed_provider(current, requested.body, strict=requested.strict)
    )
    notes = AnswerNotes(ignored=ignored_in_provider(requested.body), applied=changed.applied)
    return answer(provider_read(changed.provider), notes=notes)


@router.delete(
    "/{name}",
    dependencies=[requires(Role.ADMIN)],
    responses=answers(None) | errors(OAuthProviderNotFoundError, OAuthProviderInUseError),
)
async def delete_oauth_provider(name: ProviderName, services: ServicesOf) -> Response:
    """Delete an OAuth provider that no subscription uses."""
    await services.oauth.delete(name)
    return answer()
