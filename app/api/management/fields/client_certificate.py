"""`clientCertificate` of a subscription, for endpoints that require one."""

from datetime import UTC, datetime
from typing import Annotated, Any, Final

from pydantic import Field

from app.api.bodies.base import JsonObject, OwnSchema, Schema, checked
from app.domain.catalogue.client_certificate import PEM_LENGTH_MAX, ClientCertificate
from app.domain.secrets import MASK

# Fields of responses that cannot be set by requests.
READ_ONLY: Final = frozenset({"subject", "expiresAt", "warning"})

_LENGTH: Final[dict[str, Any]] = {"minLength": 1, "maxLength": PEM_LENGTH_MAX}


def _chain(text: str) -> str:
    from app.certificates import certificate_chain  # noqa: PLC0415 - needed only with a certificate

    return certificate_chain(text)


def _key(text: str) -> str:
    from app.certificates import private_key  # noqa: PLC0415 - needed only with a certificate

    return private_key(text)


class ClientCertificateBody(OwnSchema):
    """A certificate and its key, in PEM."""

    certificate: Annotated[str, checked(_chain)] = Field(
        description="the certificate, and those between it and its authority",
        json_schema_extra=_LENGTH,
        examples=["-----BEGIN CERTIFICATE-----\n…\n-----END CERTIFICATE-----\n"],
    )
    private_key: Annotated[str, checked(_key)] = Field(
        description="its private key without a password, which is stored encrypted",
        json_schema_extra=_LENGTH,
        examples=["-----BEGIN PRIVATE KEY-----\n…\n-----END PRIVATE KEY-----\n"],
    )

    @classmethod
    def of(cls, certificate: ClientCertificate) -> "ClientCertificateBody":
        """Return the body that describes `certificate`, with its key."""
        return cls.model_construct(
            certificate=certificate.chain, private_key=certificate.private_key
        )

    def to_domain(self, current: ClientCertificate | None) -> ClientCertificate:
        """Return the certificate.

        A certificate that equals `current` is accepted even if it has expired.

        Raises:
            ValidationFailedError: The certificate or its key is not valid.
        """
        given = (self.certificate, self.private_key)
        if current is not None and given == (current.chain, current.private_key):
            return current
        from app.certificates import client_certificate  # noqa: PLC0415 - only with a certificate

        return client_certificate(*given, now=datetime.now(UTC))


class ClientCertificateRead(Schema):
    """A certificate in responses."""

    certificate: str
    private_key: str = Field(description="masked; sent back, it means unchanged")
    subject: str
    expires_at: str = Field(description="RFC 3339")
    warning: str | None = Field(
        default=None, description="that it has expired, or does within 30 days"
    )

    @classmethod
    def of(cls, certificate: ClientCertificate) -> "ClientCertificateRead":
        """Return the response for `certificate`."""
        return cls(
            certificate=certificate.chain,
            private_key=MASK,
            subject=certificate.subject,
            expires_at=f"{certificate.not_after.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
            warning=certificate.warning(datetime.now(UTC)),
        )


def unmasked_key(given: object, current: ClientCertificate | None) -> object:
    """Return `given` (the certificate in a body) with the stored key in place of a mask."""
    if current is None or not isinstance(given, dict) or given.get("privateKey") != MASK:
        return given
    kept: JsonObject = given | {"privateKey": current.private_key}
    return kept
