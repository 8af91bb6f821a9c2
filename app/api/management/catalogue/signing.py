"""`/topics/{topic}/subscriptions/{name}/secrets`: the secrets that sign deliveries."""

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from app.api.access import requires
from app.api.dependencies import ServicesOf, SubscriptionName, TopicName
from app.api.documented import APPLIED_HEADER, answers, errors, takes
from app.api.lazy_route import LazyRoute
from app.api.management.fields.signing import (
    SigningSecretBody,
    SigningSecretRead,
    signing_body,
    signing_read,
)
from app.api.media import AnswerNotes, answer, json_request_or_none
from app.domain.access.keys import Role
from app.domain.catalogue.signing_secrets import SigningKind
from app.domain.errors import (
    SecretKeyMissingError,
    SecretUnreadableError,
    SigningSecretNotFoundError,
)

router = APIRouter(tags=["signing secrets"], route_class=LazyRoute)

_LONG = "/topics/{topic}/subscriptions/{name}/secrets"
_SHORT = "/subscriptions/{topic}/{name}/secrets"
_SECRET = (SecretKeyMissingError, SecretUnreadableError)

SecretId = Annotated[str, Path(description="id of the secret")]


@router.post(
    _SHORT,
    operation_id="add_secret_by_short_path",
    dependencies=[requires(Role.SUBSCRIPTION_OWNER)],
    status_code=201,
    responses=answers(SigningSecretRead, status=201, headers=APPLIED_HEADER)
    | errors(400, 404, 413, 415, *_SECRET),
    openapi_extra=takes(SigningSecretBody, {"overlap": 3600}, required=False),
)
@router.post(
    _LONG,
    dependencies=[requires(Role.SUBSCRIPTION_OWNER)],
    status_code=201,
    responses=answers(SigningSecretRead, status=201, headers=APPLIED_HEADER)
    | errors(400, 404, 413, 415, *_SECRET),
    openapi_extra=takes(SigningSecretBody, {"overlap": 3600}, required=False),
)
async def add_secret(
    topic: TopicName, name: SubscriptionName, *, request: Request, services: ServicesOf
) -> Response:
    """Sign deliveries with a new secret. Only this response contains the secret."""
    requested = await json_request_or_none(request)
    wanted = signing_body(requested.body)
    added = await services.signing.add(
        topic,
        name,
        kind=SigningKind(wanted.type),
        given=wanted.secret,
        overlap=timedelta(seconds=wanted.overlap),
    )
    location = f"/topics/{topic}/subscriptions/{name}/secrets/{added.secret.id}"
    notes = AnswerNotes(
        applied=added.applied,
        extra={"Location": location, "Cache-Control": "no-store"},
    )
    return answer(signing_read(added.secret, shown=True), 201, notes)


@router.get(
    _SHORT,
    operation_id="list_secrets_by_short_path",
    dependencies=[requires(Role.SUBSCRIPTION_OWNER)],
    responses=answers(SigningSecretRead, many=True) | errors(400, 404),
)
@router.get(
    _LONG,
    dependencies=[requires(Role.SUBSCRIPTION_OWNER)],
    responses=answers(SigningSecretRead, many=True) | errors(400, 404),
)
async def list_secrets(topic: TopicName, name: SubscriptionName, services: ServicesOf) -> Response:
    """Return the secrets that sign deliveries, masked, the newest first."""
    found = await services.signing.secrets(topic, name)
    return answer([signing_read(each).answered() for each in found])


@router.delete(
    _SHORT + "/{secret_id}",
    operation_id="remove_secret_by_short_path",
    dependencies=[requires(Role.SUBSCRIPTION_OWNER)],
    responses=answers(None, headers=APPLIED_HEADER)
    | errors(400, 404, SigningSecretNotFoundError, *_SECRET),
)
@router.delete(
    _LONG + "/{secret_id}",
    dependencies=[requires(Role.SUBSCRIPTION_OWNER)],
    responses=answers(None, headers=APPLIED_HEADER)
    | errors(400, 404, SigningSecretNotFoundError, *_SECRET),
)
async def remove_secret(
    topic: TopicName, name: SubscriptionName, *, secret_id: SecretId, services: ServicesOf
) -> Response:
    """Stop signing with a secret immediately."""
    applied = await services.signing.remove(topic, name, secret_id)
    return answer(notes=AnswerNotes(applied=applied))
