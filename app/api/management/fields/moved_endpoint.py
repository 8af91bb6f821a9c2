"""Checks a change that moves a subscription's endpoint to a new host.

The change must set each stored secret again. A caller may be allowed to change a subscription, but
never to read its secrets. So the caller must not be able to send the secrets to another host.
Signing secrets are kept, because a request has a signature, and never the secret.
"""

from collections.abc import Iterator
from typing import Final

from app.api.bodies.base import JsonObject
from app.api.management.fields.oauth import MASKS
from app.domain.catalogue.oauth import POLICY_FIELD
from app.domain.catalogue.subscription import Subscription
from app.domain.errors import FieldProblem, ValidationFailedError
from app.domain.network.urls import origin

_AGAIN: Final = "must be given again, or taken out: endpoint has another scheme, host or port"


def require_given_again(current: Subscription, wanted: Subscription, patch: JsonObject) -> None:
    """Check that `patch` sets each stored secret again.

    The patch turns `current` into `wanted`, whose endpoint is on another host.

    Raises:
        ValidationFailedError: Secrets are masked or missing in the patch; the error names them.
    """
    if origin(wanted.endpoint) == origin(current.endpoint):
        return
    paths = [*_headers(wanted, patch), *_certificate(wanted, patch), *_policy(wanted, patch)]
    if paths:
        raise ValidationFailedError([FieldProblem(path=path, message=_AGAIN) for path in paths])


def _headers(wanted: Subscription, patch: JsonObject) -> Iterator[str]:
    if not wanted.headers:
        return
    if "headers" not in patch:
        yield "headers"
        return
    for index, each in enumerate(patch["headers"]):
        if each["value"] in MASKS:
            yield f"headers.{index}.value"


def _certificate(wanted: Subscription, patch: JsonObject) -> Iterator[str]:
    given = patch.get("clientCertificate", {})
    if wanted.client_certificate is not None and _is_kept(given, "privateKey"):
        yield "clientCertificate.privateKey"


def _policy(wanted: Subscription, patch: JsonObject) -> Iterator[str]:
    if wanted.oauth is None:
        return
    given = patch.get(POLICY_FIELD, {})
    if _is_kept(given, "providerName"):
        yield f"{POLICY_FIELD}.providerName"
    if wanted.oauth.password is not None and _is_kept(given, "password"):
        yield f"{POLICY_FIELD}.password"


def _is_kept(given: JsonObject, name: str) -> bool:
    """Whether a merge patch leaves the field `name` unchanged. `given` is a part of the patch."""
    return name not in given or given[name] in MASKS
