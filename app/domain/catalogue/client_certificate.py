"""The TLS client certificate of a subscription. Some endpoints require such a certificate."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from app.domain.secrets import SECRET

# The maximum number of characters of a certificate chain, and of a private key.
PEM_LENGTH_MAX: Final = 32 * 1024
# The owner is warned if the certificate expires within this time.
WARNED_BEFORE: Final = timedelta(days=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCertificate:
    """The certificates and the private key that Angelia uses for an endpoint, in PEM.

    `chain` begins with the certificate of Angelia itself. `subject` (RFC 4514) and `not_after` are
    from this certificate.
    """

    chain: str
    private_key: str = field(repr=False, metadata=SECRET)
    subject: str
    not_after: datetime

    def warning(self, now: datetime) -> str | None:
        """Return a warning for the subscription's owner.

        The result is None unless the certificate has expired or expires soon.
        """
        if now >= self.not_after:
            return "has expired"
        left = self.not_after - now
        return f"expires in {left.days} days" if left < WARNED_BEFORE else None
