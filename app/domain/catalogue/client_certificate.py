"""The TLS client certificate of a subscription, for endpoints that require one."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from app.domain.secrets import SECRET

# The maximum length of a certificate chain, and of a key.
PEM_LENGTH_MAX: Final = 32 * 1024
# How long before a certificate expires its owner is warned.
WARNED_BEFORE: Final = timedelta(days=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCertificate:
    """A chain of certificates, the client's own first, and its private key, in PEM.

    `subject` (RFC 4514) and `not_after` are from the client's own certificate.
    """

    chain: str
    private_key: str = field(repr=False, metadata=SECRET)
    subject: str
    not_after: datetime

    def warning(self, now: datetime) -> str | None:
        """Return a warning for the subscription's owner if the certificate expires soon."""
        if now >= self.not_after:
            return "has expired"
        left = self.not_after - now
        return f"expires in {left.days} days" if left < WARNED_BEFORE else None
