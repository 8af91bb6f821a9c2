"""Adds and removes signing secrets of a subscription. Old and new secrets may overlap in time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from app.domain.catalogue.signing_secrets import (
    SigningKind,
    SigningSecret,
    rotated,
    signing_at,
    without,
)
from app.domain.catalogue.subscription import Subscription
from app.domain.errors import SigningSecretNotFoundError
from app.services.catalogue.subscriptions import SubscriptionService
from app.signing import new_signing_key, signing_key


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedSecret:
    """A new secret. `applied` tells whether all running workers already sign with the secret."""

    secret: SigningSecret
    applied: bool


class SigningService:
    """Changes the secrets that sign the deliveries of a subscription.

    Every method raises TopicNotFoundError and SubscriptionNotFoundError. Methods that change
    something also raise SecretKeyMissingError and SecretUnreadableError.
    """

    def __init__(
        self, subscriptions: SubscriptionService, *, clock: Callable[[], datetime] = _utc_now
    ) -> None:
        self._subscriptions = subscriptions
        self._clock = clock

    async def secrets(self, topic: str, name: str) -> Sequence[SigningSecret]:
        """Return the valid secrets, the newest first."""
        found, _ = await self._subscriptions.get(topic, name)
        return signing_at(found.signing_secrets, self._clock())

    async def add(
        self, topic: str, name: str, *, kind: SigningKind, given: str | None, overlap: timedelta
    ) -> AddedSecret:
        """Sign with a new secret from now on, and with older secrets until `overlap` has passed.

        The new secret is `given`. If `given` is None, a random secret is made.

        Raises:
            ValidationFailedError: The secret is not of the kind `kind`, `overlap` is out of range,
                or there are too many secrets.
        """
        key = new_signing_key(kind) if given is None else signing_key(kind, given)
        secret = SigningSecret(
            id=uuid4().hex,
            kind=kind,
            key=key.text,
            public_key=key.public,
            created_at=self._clock(),
        )

        def edit(current: Subscription) -> Subscription:
            secrets = rotated(current.signing_secrets, secret, overlap=overlap)
            return replace(current, signing_secrets=secrets)

        changed = await self._subscriptions.change(topic, name, edit)
        return AddedSecret(secret=secret, applied=changed.applied)

    async def remove(self, topic: str, name: str, secret_id: str) -> bool:
        """Stop signing with the secret; return whether all running workers have stopped.

        If the removed secret had no time of expiry, the newest remaining secret of its kind no
        longer expires. If no secret remains, deliveries are not signed from now on.

        Raises:
            SigningSecretNotFoundError: The secret does not exist.
        """

        def edit(current: Subscription) -> Subscription:
            valid = signing_at(current.signing_secrets, self._clock())
            left = without(valid, secret_id)
            if len(left) == len(valid):
                raise SigningSecretNotFoundError(f"Signing secret {secret_id} does not exist")
            return replace(current, signing_secrets=left)

        return (await self._subscriptions.change(topic, name, edit)).applied
