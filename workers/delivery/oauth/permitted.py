"""Checks whether a subscription may use the tokens that its policy requests."""

from dataclasses import replace

import structlog

from app.domain.catalogue.oauth import OAuthPolicy, OAuthProvider
from app.domain.catalogue.subscription import Subscription
from app.domain.catalogue.token_grants import UNRESTRICTED, require_use
from app.domain.errors import ValidationFailedError

_log = structlog.get_logger(__name__)


def permitted(
    provider: OAuthProvider | None, policy: OAuthPolicy, subscription: Subscription
) -> OAuthProvider | None:
    """Return `provider`, locked if its tokens are not for this endpoint or these scopes.

    The field `locked` of the returned provider then has the reason. The same check is made when a
    subscription is changed. Here it also finds later changes of the provider.
    """
    if provider is None:
        return None
    if provider.unrestricted:
        _log.warning(
            "oauth_provider_unrestricted",
            provider=provider.name,
            topic=subscription.topic,
            subscription=subscription.name,
            problem=UNRESTRICTED,
        )
    try:
        require_use(provider, policy, subscription.endpoint)
    except ValidationFailedError as error:
        return replace(provider, locked=error.message)
    return provider
