"""What a subscription shows of itself to an endpoint that asks: a certificate, by TLS."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCertificate:
    """A chain of certificates, its own first, and the private key of that one, in PEM."""

    chain: str
    private_key: str = field(repr=False)
