"""Rules for OAuth providers: who may use their tokens, at which hosts, and for which scopes.

The limits for hosts and scopes apply to everybody, and are checked again before a token is
requested. Only admins, and callers that act for an owner of a provider, may use it in a
subscription.
"""

from collections.abc import Sequence
from typing import Final

from app.domain.access.keys import Grants
from app.domain.catalogue.oauth import POLICY_FIELD, OAuthPolicy, OAuthProvider
from app.domain.errors import PermissionDeniedError, ValidationFailedError
from app.domain.network.hosts import is_host_of

UNRESTRICTED: Final = (
    "every owner of a subscription may use it: set owners and endpointHosts, and scopes if needed"
)


def require_user(provider: OAuthProvider, grants: Grants) -> None:
    """Check that a caller with these permissions may let a subscription use the provider.

    Only admins may use a provider without owners or hosts. Everybody may use a provider that is
    `unrestricted`.

    Raises:
        PermissionDeniedError: The caller may not use the provider.
    """
    if grants.admin or provider.unrestricted:
        return
    if not provider.owners or not provider.endpoint_hosts:
        raise PermissionDeniedError(
            f"OAuth provider {provider.name} is for admins alone:"
            " an admin may set its owners and endpointHosts"
        )
    if grants.owners.isdisjoint(provider.owners):
        raise PermissionDeniedError(
            f"OAuth provider {provider.name} takes a key with the scope owner: of one of its owners"
        )


def require_use(provider: OAuthProvider, policy: OAuthPolicy, endpoint: str) -> None:
    """Check that tokens for `policy` may be sent to `endpoint`, which is a valid URL.

    Raises:
        ValidationFailedError: The host or a scope is not allowed; the error names the field.
    """
    if provider.endpoint_hosts and not is_host_of(provider.endpoint_hosts, endpoint):
        hosts = ", ".join(provider.endpoint_hosts)
        raise ValidationFailedError.of(
            "endpoint",
            f"must be at a host that tokens of OAuth provider {provider.name} may go to: {hosts}",
        )
    if provider.scopes and not _has_scopes(provider.scopes, policy.scope):
        raise ValidationFailedError.of(
            f"{POLICY_FIELD}.scope",
            f"must be of those of OAuth provider {provider.name}: {', '.join(provider.scopes)}",
        )


def _has_scopes(allowed: Sequence[str], requested: str) -> bool:
    """Whether a token may be requested for these scopes, if only `allowed` are allowed.

    A request without a scope would get the provider's default scopes. So it is not allowed if
    scopes are limited.
    """
    return bool(requested) and frozenset(requested.split(" ")) <= frozenset(allowed)
