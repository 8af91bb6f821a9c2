"""Signing secrets of a subscription (Standard Webhooks 1.0): which there are, and for how long."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from app.domain.errors import ValidationFailedError
from app.domain.secrets import SECRET

# With all of them in one header it stays below 1 KiB.
SIGNING_SECRETS_MAX: Final = 8
OVERLAP_MAX: Final = timedelta(days=30)
OVERLAP_DEFAULT: Final = timedelta(days=1)


class SigningKind(StrEnum):
    """What a secret signs with: HMAC-SHA256 (`v1`), or ed25519 (`v1a`), whose check is public."""

    V1 = "v1"
    V1A = "v1a"


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningSecret:
    """A secret that deliveries are signed with until it expires.

    `key` is as its receiver has it, `whsec_…`, or its secret part, `whsk_…`; `public_key`
    (`whpk_…`) is what a v1a signature is checked with.
    """

    id: str
    kind: SigningKind
    key: str = field(repr=False, metadata=SECRET)
    public_key: str | None = None
    created_at: datetime
    expires_at: datetime | None = None

    def signs_at(self, now: datetime) -> bool:
        """Whether it has not expired."""
        return self.expires_at is None or self.expires_at > now


def signing_at(secrets: Sequence[SigningSecret], now: datetime) -> tuple[SigningSecret, ...]:
    """Those of `secrets` that have not expired."""
    return tuple(each for each in secrets if each.signs_at(now))


def rotated(
    secrets: Sequence[SigningSecret], new: SigningSecret, *, overlap: timedelta
) -> tuple[SigningSecret, ...]:
    """`secrets` with a `new` one; the older ones of its kind expire after `overlap` at the latest.

    ValidationFailedError: that would be more than SIGNING_SECRETS_MAX, or `overlap` is out of its
    range.
    """
    if not timedelta() <= overlap <= OVERLAP_MAX:
        seconds = OVERLAP_MAX // timedelta(seconds=1)
        raise ValidationFailedError.of("overlap", f"must be 0 to {seconds}")
    now, last = new.created_at, new.created_at + overlap
    older = (_ending(each, last) if each.kind is new.kind else each for each in secrets)
    return (new, *signing_at(tuple(older), now))


def without(secrets: Sequence[SigningSecret], secret_id: str) -> tuple[SigningSecret, ...]:
    """`secrets` without the one of that id.

    If it had no end, the newest that is left of its kind has none from now on: a change that is
    taken back leaves its deliveries signed, also when the overlap is over.
    """
    left = [each for each in secrets if each.id != secret_id]
    for gone in secrets:
        if gone.id == secret_id and gone.expires_at is None:
            same = (at for at, each in enumerate(left) if each.kind is gone.kind)
            if (heir := next(same, None)) is not None:
                left[heir] = replace(left[heir], expires_at=None)
    return tuple(left)


def require_signing_secrets(secrets: Sequence[SigningSecret]) -> None:
    """Return if a subscription can have these; ValidationFailedError."""
    if len(secrets) > SIGNING_SECRETS_MAX:
        raise ValidationFailedError.of(
            "secrets", f"must be at most {SIGNING_SECRETS_MAX}, those that expire included"
        )


def _ending(secret: SigningSecret, last: datetime) -> SigningSecret:
    ends = last if secret.expires_at is None else min(last, secret.expires_at)
    return replace(secret, expires_at=ends)
