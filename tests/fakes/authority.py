"""Certificates for servers and clients in tests, from an authority that only tests trust."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme

from app.domain.catalogue.client_certificate import ClientCertificate


class Authority:
    """Issues certificates. Clients that trust the file `ca_file` accept them."""

    def __init__(self, folder: Path) -> None:
        self._authority = trustme.CA()
        self.ca_file = folder / "authority.pem"
        self._authority.cert_pem.write_to_path(self.ca_file)

    def client(self, name: str, *, expired: datetime | None = None) -> ClientCertificate:
        """Return a client certificate. If `expired` is given, it is valid only until that time."""
        issued = self._authority.issue_cert(common_name=name, not_after=expired)
        return ClientCertificate(
            chain="".join(blob.bytes().decode() for blob in issued.cert_chain_pems),
            private_key=issued.private_key_pem.bytes().decode(),
            subject=f"CN={name}",
            not_after=expired or datetime.now(UTC) + timedelta(days=365),
        )

    def files(self, folder: Path, *names: str) -> tuple[Path, Path]:
        """Write a certificate for the host names `names` and its key to files; return the paths."""
        issued = self._authority.issue_cert(*names)
        chain, key = folder / "server.pem", folder / "server.key"
        chain.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        issued.private_key_pem.write_to_path(key)
        return chain, key

    def server_for(self, clients: "Authority", *names: str) -> ssl.SSLContext:
        """Return the TLS settings of `server`, for a server that requires client certificates.

        The authority `clients` must have issued the client certificates.
        """
        context = self.server(*names)
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(clients.ca_file)
        return context

    def server(self, *names: str, expired: datetime | None = None) -> ssl.SSLContext:
        """Return the TLS settings of a server with a certificate for the host names `names`."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._authority.issue_cert(*names, not_after=expired).configure_cert(context)
        return context
