"""Bodies and responses with signing secrets."""

from datetime import timedelta
from typing import Final, Literal

from pydantic import Field

from app.api.bodies.base import JsonObject, OwnSchema, Schema, parse_own
from app.domain.catalogue.signing_secrets import (
    OVERLAP_DEFAULT,
    OVERLAP_MAX,
    SigningKind,
    SigningSecret,
)
from app.domain.secrets import MASK

_SECOND: Final = timedelta(seconds=1)


class SigningSecretBody(OwnSchema):
    """A signing secret to add: the given one, or a new random one."""

    type: Literal["v1", "v1a"] = Field(
        default="v1", description="HMAC-SHA256, or ed25519, whose receivers need no secret"
    )
    secret: str | None = Field(
        default=None,
        description="whsec_ (v1) or whsk_ (v1a) and base64; one is made unless it is given",
        examples=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
    )
    overlap: int = Field(
        default=OVERLAP_DEFAULT // _SECOND,
        ge=0,
        le=OVERLAP_MAX // _SECOND,
        description="seconds for which the earlier secrets of its type sign, too",
    )


class SigningSecretRead(Schema):
    """A signing secret in responses; times as in RFC 3339."""

    id: str
    type: Literal["v1", "v1a"]
    secret: str = Field(default=MASK, description="shown once, when it is made", examples=[MASK])
    public_key: str | None = Field(default=None, description="whpk_ and base64, for v1a")
    created_at: str
    expires_at: str | None = Field(default=None, description="it signs until then")


def signing_body(body: JsonObject) -> SigningSecretBody:
    """Return the signing secret that a request describes.

    Raises:
        ValidationFailedError: The body is invalid; the error lists all problems of the body.
    """
    return parse_own(SigningSecretBody, body)


def signing_read(secret: SigningSecret, *, shown: bool = False) -> SigningSecretRead:
    """Return the response for `secret`; the key is unmasked if `shown` is true."""
    ends = secret.expires_at
    return SigningSecretRead(
        id=secret.id,
        type=_type_of(secret.kind),
        secret=secret.key if shown else MASK,
        public_key=secret.public_key,
        created_at=secret.created_at.isoformat(),
        expires_at=None if ends is None else ends.isoformat(),
    )


def _type_of(kind: SigningKind) -> Literal["v1", "v1a"]:
    return "v1" if kind is SigningKind.V1 else "v1a"
