"""What a subscription shows of itself to an endpoint that asks: a certificate, by TLS."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from app.domain.secrets import SECRET

# Of a chain, and of a key.
PEM_LENGTH_MAX: Final = 32 * 1024
# Its owner is warned so long before it ends.
WARNED_BEFORE: Final = timedelta(days=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCertificate:
    """A chain of certificates, its own first, and the private key of that one, in PEM.

    `subject` (RFC 4514) and `not_after` are what its own certificate says.
    """

    chain: str
    private_key: str = field(repr=False, metadata=SECRET)
    subject: str
    not_after: datetime

    def warning(self, now: datetime) -> str | None:
        """What its owner should know of its end, if it is near."""
        if now >= self.not_after:
            return "has expired"
        left = self.not_after - now
        return f"expires in {left.days} days" if left < WARNED_BEFORE else None
