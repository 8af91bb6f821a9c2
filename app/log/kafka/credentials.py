"""TLS and SASL credentials for connections to Kafka, read again when their files change."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import structlog
from kafka.net.sasl import get_sasl_mechanism

from app.domain.kafka_security import KafkaOAuth, KafkaSecurity
from app.log.kafka.bridge import Untyped
from app.log.kafka.refusals import RefusedError, of_tls, unfit_files
from app.log.kafka.tokens.access_tokens import AccessTokens, AccessTokenSource
from app.log.kafka.tokens.rotated_secret import RotatedSecret
from app.log.kafka.tokens.signed_tokens import SignedTokens

_Stamp = tuple[int, ...]

_log = structlog.get_logger(__name__)


class KafkaCredentials:
    """The credentials of all connections of a process. Can be used on any thread."""

    def __init__(self, security: KafkaSecurity, tokens: AccessTokens | None = None) -> None:
        """Create a `KafkaCredentials`.

        `tokens` are needed for a login with access tokens.
        """
        self.security: Final = security
        self.tokens: Final = tokens
        self._context: tuple[_Stamp, ssl.SSLContext] | None = None
        self._password = RotatedSecret(security.password, security.password_file)

    def context(self) -> ssl.SSLContext | None:
        """Return the TLS context for the current files; None if connections are not encrypted.

        While the files are being replaced, the certificate and the key may not match. Then the last
        working context is returned.

        Raises:
            RefusedError: The files cannot be used, and there was no context before.
            OSError: A file cannot be read, and there was no context before.
        """
        if not self.security.by_tls:
            return None
        stamp = self._stamp()
        known = self._context
        if known is not None and known[0] == stamp:
            return known[1]
        try:
            context = _context(self.security)
        except (OSError, RefusedError) as error:
            if known is None:
                raise
            _log.warning("kafka_certificates_unreadable", error=str(error))
            return known[1]
        self._context = (stamp, context)
        return context

    def mechanism(self) -> Untyped:
        """Return a new SASL exchange for one login."""
        options = self.options()
        return get_sasl_mechanism(options["sasl_mechanism"])(**options)

    def options(self) -> dict[str, Untyped]:
        """Return the credentials as options for kafka-python's connections."""
        if not self.security.by_sasl:
            return {"security_protocol": self.security.protocol}
        return {
            "security_protocol": self.security.protocol,
            "sasl_mechanism": self.security.mechanism,
            "sasl_plain_username": self._username(),
            "sasl_plain_password": self._password.text(),
            "sasl_oauth_token_provider": self.tokens,
        }

    def explained(self, error: Exception) -> str:
        """Return the reason why a connection could not be opened, as text without secrets."""
        if isinstance(error, ssl.SSLError):
            return of_tls(error, self.security)
        return str(error) or type(error).__name__

    def _username(self) -> str:
        name = self.security.username or ""
        if self.security.mechanism == "PLAIN":
            return name
        # Escape `=` and `,`, which separate the parts of a SCRAM message (RFC 5802, 5.1).
        return name.replace("=", "=3D").replace(",", "=2C")

    def _stamp(self) -> _Stamp:
        security = self.security
        paths = (security.ca_file, security.certificate_file, security.key_file)
        return tuple(part for path in paths if path is not None for part in _stamp_of(path))


@asynccontextmanager
async def opened_credentials(security: KafkaSecurity) -> AsyncIterator[KafkaCredentials]:
    """Yield the credentials. During the block, access tokens are renewed."""
    if not security.by_token:
        yield KafkaCredentials(security)
        return
    source, origin = _token_source(security.oauth)
    async with AccessTokens(source, origin=origin) as tokens:
        yield KafkaCredentials(security, tokens)


def _token_source(oauth: KafkaOAuth) -> tuple[AccessTokenSource, str]:
    """Return the source of access tokens, and the name that error texts use for this source."""
    if oauth.provider == "aws-msk-iam":
        return SignedTokens(oauth.aws_region or ""), f"AWS IAM in {oauth.aws_region}"
    from app.log.kafka.tokens.client_credentials import ClientCredentials  # noqa: PLC0415 - httpx takes 0.2 s to import

    return ClientCredentials(oauth), str(oauth.token_url)


def _stamp_of(path: Path) -> _Stamp:
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino


def _context(security: KafkaSecurity) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=security.ca_file)
    if security.certificate_file is not None:
        try:
            # Pass an empty password for the key file. Without a password, OpenSSL would ask for one
            # on the terminal.
            context.load_cert_chain(security.certificate_file, security.key_file, password="")
        except ssl.SSLError as error:
            raise RefusedError(unfit_files(error)) from error
    return context
