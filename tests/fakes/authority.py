"""Certificates for tests' servers, by an authority of their own."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme

from app.domain.catalogue.client_certificate import ClientCertificate


class Authority:
    """Issues certificates; clients that trust `ca_file` accept them."""

    def __init__(self, folder: Path) -> None:
        self._authority = trustme.CA()
        self.ca_file = folder / "authority.pem"
        self._authority.cert_pem.write_to_path(self.ca_file)

    def client(self, name: str, *, expired: datetime | None = None) -> ClientCertificate:
        """What a client shows of itself."""
        issued = self._authority.issue_cert(common_name=name, not_after=expired)
        return ClientCertificate(
            chain="".join(blob.bytes().decode() for blob in issued.cert_chain_pems),
            private_key=issued.private_key_pem.bytes().decode(),
            subject=f"CN={name}",
            not_after=expired or datetime.now(UTC) + timedelta(days=365),
        )

    def files(self, folder: Path, *names: str) -> tuple[Path, Path]:
        """A certificate for `names` and its key, for servers that want files."""
        issued = self._authority.issue_cert(*names)
        chain, key = folder / "server.pem", folder / "server.key"
        chain.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        issued.private_key_pem.write_to_path(key)
        return chain, key

    def server_for(self, clients: "Authority", *names: str) -> ssl.SSLContext:
        """As `server`, for clients with a certificate of the authority `clients`."""
        context = self.server(*names)
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(clients.ca_file)
        return context

    def server(self, *names: str, expired: datetime | None = None) -> ssl.SSLContext:
        """What a server with a certificate for `names` listens with."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._authority.issue_cert(*names, not_after=expired).configure_cert(context)
        return context
