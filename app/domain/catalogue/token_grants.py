"""Rules for OAuth providers: who may use their tokens, at which hosts, and for which scopes.

Only admins, and callers that act for an owner of a provider, may use the provider in a
subscription. The limits for hosts and scopes apply to everybody. They are checked again before a
token is requested.
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
    """Check that a caller with the permissions `grants` may use the provider in a subscription.

    If a provider has no owners, or no hosts, only admins may use it. If a provider is
    `unrestricted`, everybody may use it.

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
    """Check that the tokens that `policy` requests may be sent to the URL `endpoint`.

    Raises:
        ValidationFailedError: The host or a scope is not allowed. The error names the field.
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
    """Return whether all requested scopes are allowed.

    A request without a scope would get the default scopes of the provider, which may not be
    allowed. So it is not allowed either.
    """
    return bool(requested) and frozenset(requested.split(" ")) <= frozenset(allowed)
