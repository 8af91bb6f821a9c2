"""The signing secrets of a subscription (Standard Webhooks 1.0), and when they expire."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from app.domain.errors import ValidationFailedError
from app.domain.secrets import SECRET

# The maximum number of signing secrets of a subscription. Even with this number, the header with
# all signatures is shorter than 1 KiB.
SIGNING_SECRETS_MAX: Final = 8
# How long an older secret still signs after a new secret was added. The first value is the maximum,
# the second one is the default.
OVERLAP_MAX: Final = timedelta(days=30)
OVERLAP_DEFAULT: Final = timedelta(days=1)


class SigningKind(StrEnum):
    """The signature method. V1 is HMAC-SHA256. V1A is ed25519, which has a public key."""

    V1 = "v1"
    V1A = "v1a"


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningSecret:
    """A secret with which deliveries are signed until it expires.

    For v1 signatures, `key` is a shared secret (`whsec_…`). For v1a signatures, `key` is a private
    key (`whsk_…`), and receivers verify the signatures with `public_key` (`whpk_…`).
    """

    id: str
    kind: SigningKind
    key: str = field(repr=False, metadata=SECRET)
    public_key: str | None = None
    created_at: datetime
    expires_at: datetime | None = None

    def signs_at(self, now: datetime) -> bool:
        """Return whether the secret signs deliveries at the time `now`."""
        return self.expires_at is None or self.expires_at > now


def signing_at(secrets: Sequence[SigningSecret], now: datetime) -> tuple[SigningSecret, ...]:
    """Return those of `secrets` that have not expired at the time `now`."""
    return tuple(each for each in secrets if each.signs_at(now))


def rotated(
    secrets: Sequence[SigningSecret], new: SigningSecret, *, overlap: timedelta
) -> tuple[SigningSecret, ...]:
    """Add the secret `new` to `secrets`, and return the secrets that have not expired.

    Older secrets of the same kind expire when the time `overlap` has passed. A secret that has an
    earlier expiry keeps it.

    Raises:
        ValidationFailedError: `overlap` is negative, or longer than OVERLAP_MAX.
    """
    if not timedelta() <= overlap <= OVERLAP_MAX:
        seconds = OVERLAP_MAX // timedelta(seconds=1)
        raise ValidationFailedError.of("overlap", f"must be 0 to {seconds}")
    now, last = new.created_at, new.created_at + overlap
    older = (_ending(each, last) if each.kind is new.kind else each for each in secrets)
    return (new, *signing_at(tuple(older), now))


def without(secrets: Sequence[SigningSecret], secret_id: str) -> tuple[SigningSecret, ...]:
    """Return `secrets` without the secret whose id is `secret_id`.

    If the removed secret had no expiry, the newest other secret of the same kind gets no expiry
    either. So deliveries stay signed if somebody adds a new secret and removes it again.
    """
    left = [each for each in secrets if each.id != secret_id]
    for gone in secrets:
        if gone.id == secret_id and gone.expires_at is None:
            same = (at for at, each in enumerate(left) if each.kind is gone.kind)
            if (heir := next(same, None)) is not None:
                left[heir] = replace(left[heir], expires_at=None)
    return tuple(left)


def require_signing_secrets(secrets: Sequence[SigningSecret]) -> None:
    """Check the number of signing secrets of a subscription.

    Raises:
        ValidationFailedError: There are more than SIGNING_SECRETS_MAX.
    """
    if len(secrets) > SIGNING_SECRETS_MAX:
        raise ValidationFailedError.of(
            "secrets", f"must be at most {SIGNING_SECRETS_MAX}, those that expire included"
        )


def _ending(secret: SigningSecret, last: datetime) -> SigningSecret:
    ends = last if secret.expires_at is None else min(last, secret.expires_at)
    return replace(secret, expires_at=ends)
