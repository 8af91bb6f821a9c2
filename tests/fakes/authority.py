"""Certificates for tests' servers, by an authority of their own."""

import ssl
from datetime import datetime
from pathlib import Path

import trustme


class Authority:
    """Issues certificates; clients that trust `ca_file` accept them."""

    def __init__(self, folder: Path) -> None:
        self._authority = trustme.CA()
        self.ca_file = folder / "authority.pem"
        self._authority.cert_pem.write_to_path(self.ca_file)

    def server(self, *names: str, expired: datetime | None = None) -> ssl.SSLContext:
        """What a server with a certificate for `names` listens with."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._authority.issue_cert(*names, not_after=expired).configure_cert(context)
        return context
