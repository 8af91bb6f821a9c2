"""OAuth providers, and the subscriptions that get tokens from them."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import structlog

from app.domain.access.audit import Action, Change
from app.domain.access.keys import Caller
from app.domain.catalogue.oauth import POLICY_FIELD, OAuthProvider
from app.domain.catalogue.subscription import Subscription
from app.domain.catalogue.token_grants import UNRESTRICTED, require_use, require_user
from app.domain.errors import (
    OAuthProviderInUseError,
    ValidationFailedError,
)
from app.domain.network.egress import EgressPolicy
from app.services.access.audit import Describe, note
from app.services.applied_changes import APPLIED_WITHIN, AppliedChanges
from app.storage.access.audit import AuditRepository
from app.storage.catalogue.changes import ChangeFeed
from app.storage.catalogue.oauth_providers import OAuthProviderRepository
from app.storage.database import Database

_log = structlog.get_logger(__name__)

# The maximum number of subscriptions that the error for a used provider names.
NAMED_MAX: Final = 10


class ChangedProvider(NamedTuple):
    """A provider after a change. `applied` tells whether all running workers use the change."""

    provider: OAuthProvider
    applied: bool


class OAuthProviderService:
    """Creates, looks up, changes and deletes OAuth providers; each method is one transaction."""

    def __init__(
        self,
        database: Database,
        applied: AppliedChanges,
        *,
        egress: EgressPolicy,
        describe: Describe[OAuthProvider],
    ) -> None:
        self._database = database
        self._describe = describe
        self._applied = applied
        self._egress = egress

    async def names(self) -> Sequence[str]:
        """Return the names of all providers in alphabetical order."""
        async with self._database.transaction() as session:
            return await OAuthProviderRepository(session).names()

    async def get(self, name: str) -> OAuthProvider:
        """Return the provider.

        Raises:
            OAuthProviderNotFoundError: The provider does not exist.
        """
        async with self._database.transaction() as session:
            return await OAuthProviderRepository(session).get(name)

    async def create(self, provider: OAuthProvider) -> None:
        """Create the provider.

        Raises:
            OAuthProviderExistsError: The provider already exists.
            SecretKeyMissingError: No secret key is configured.
            ValidationFailedError: Requests to the token endpoint are not allowed.
        """
        self._require_allowed(provider)
        async with self._database.transaction() as session:
            await OAuthProviderRepository(session).add(provider)
            await note(AuditRepository(session), self._change(Action.CREATED, after=provider))

    async def change(
        self, name: str, edit: Callable[[OAuthProvider], OAuthProvider]
    ) -> ChangedProvider:
        """Replace the provider by the result of `edit`. The next token requests use this result.

        Errors of `edit` are raised too.

        Raises:
            OAuthProviderNotFoundError: The provider does not exist.
            SecretKeyMissingError: No secret key is configured.
            ValidationFailedError: Requests to the token endpoint are not allowed.
        """
        async with self._database.transaction() as session:
            # Take the lock of changes, so that the provider does not change between reading and
            # writing.
            number = await ChangeFeed(session).next_number()
            providers = OAuthProviderRepository(session)
            current = await providers.get(name)
            wanted = edit(current)
            if wanted.token_endpoint != current.token_endpoint:
                self._require_allowed(wanted)
            if wanted != current:
                await providers.update(wanted, change=number)
                event = self._change(Action.UPDATED, before=current, after=wanted)
                await note(AuditRepository(session), event)
        applied = await self._applied.wait(number, within=APPLIED_WITHIN)
        return ChangedProvider(wanted, applied)

    async def delete(self, name: str) -> None:
        """Delete the provider.

        Raises:
            OAuthProviderNotFoundError: The provider does not exist.
            OAuthProviderInUseError: Subscriptions use the provider; the error names them.
        """
        async with self._database.transaction() as session:
            # Hold the lock of changes, so that no subscription begins to use the provider while the
            # provider is deleted.
            await ChangeFeed(session).hold()
            providers = OAuthProviderRepository(session)
            deleted = await providers.get(name)
            await providers.delete(name)
            await note(AuditRepository(session), self._change(Action.REMOVED, before=deleted))
            count, users = await providers.users(name, limit=NAMED_MAX)
            if count:
                more = f" and {count - len(users)} more" if count > len(users) else ""
                message = f"OAuth provider {name} issues tokens for {', '.join(users)}{more}"
                raise OAuthProviderInUseError(message)

    def _change(
        self,
        action: Action,
        *,
        before: OAuthProvider | None = None,
        after: OAuthProvider | None = None,
    ) -> Change:
        provider = after or before
        return Change(
            action=action,
            kind="oauthProvider",
            name=provider.name if provider else "",
            before=self._describe(before) if before else None,
            after=self._describe(after) if after else None,
        )

    def _require_allowed(self, provider: OAuthProvider) -> None:
        """Refuse a token endpoint with a forbidden address when the provider is stored.

        The name of a host may still resolve to a forbidden address later. Then each token request
        is refused.
        """
        parts = urlsplit(provider.token_endpoint)
        problem = self._egress.endpoint_problem(parts.scheme, parts.hostname or "", parts.port)
        if problem is not None:
            raise ValidationFailedError.of(
                "tokenEndpoint",
                f"cannot be asked: {problem};"
                " the operator may allow networks by ANGELIA_ALLOW_PRIVATE_ENDPOINTS",
            )


async def require_provider(
    subscription: Subscription, providers: OAuthProviderRepository, caller: Caller
) -> None:
    """Check that `caller` may use the OAuth provider of the subscription, if there is one.

    The code that calls this function must hold the lock of changes (docs/glossary.md).

    Raises:
        PermissionDeniedError: The caller lacks the permission.
        ValidationFailedError: The provider does not exist, or is not for this endpoint or scope.
    """
    policy = subscription.oauth
    if policy is None:
        return
    name = policy.provider_name
    provider = (await providers.named([name])).get(name)
    if provider is None:
        raise ValidationFailedError.of(
            f"{POLICY_FIELD}.providerName", f"must be an OAuth provider that exists: {name}"
        )
    require_user(provider, caller.grants)
    require_use(provider, policy, subscription.endpoint)
    if provider.unrestricted:
        _log.warning("oauth_provider_unrestricted", provider=name, problem=UNRESTRICTED)
