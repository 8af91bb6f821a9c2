"""Whether a subscription may have the tokens that its policy asks for, as things are now."""

from dataclasses import replace

import structlog

from app.domain.errors import ValidationFailedError
from app.domain.oauth import OAuthPolicy, OAuthProvider
from app.domain.subscription import Subscription
from app.domain.token_use import UNRESTRICTED, require_use

_log = structlog.get_logger(__name__)


def permitted(
    provider: OAuthProvider | None, policy: OAuthPolicy, subscription: Subscription
) -> OAuthProvider | None:
    """`provider`, locked where its tokens are not for that endpoint or for those scopes (any more).

    The same is checked when a subscription is changed: this is for what the provider became since.
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
