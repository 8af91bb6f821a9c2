"""A subscription with an endpoint on a new host: its secrets must be given again.

A caller that may change a subscription may not read its secrets. So the caller must not be able to
have them sent to another host. Signing secrets are kept: a request has a signature, never the
secret.
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
    """Check that `patch`, which turns `current` into `wanted`, sets each stored secret again.

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
    """Whether a part of a merge patch leaves that field unchanged."""
    return name not in given or given[name] in MASKS
