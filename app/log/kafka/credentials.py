"""What connections to Kafka begin with: TLS and SASL, read anew when their files change."""

import ssl
from pathlib import Path
from typing import Final

import structlog
from kafka.net.sasl import get_sasl_mechanism

from app.domain.kafka_security import KafkaSecurity
from app.log.kafka.bridge import Untyped
from app.log.kafka.refusals import RefusedError, of_tls, unfit_files

_Stamp = tuple[int, ...]

_log = structlog.get_logger(__name__)


class KafkaCredentials:
    """Of all connections of a process. Any thread may ask."""

    def __init__(self, security: KafkaSecurity) -> None:
        self.security: Final = security
        self._context: tuple[_Stamp, ssl.SSLContext] | None = None
        self._password_read = ""

    def context(self) -> ssl.SSLContext | None:
        """For TLS, with the files as they are; None: connections are not encrypted.

        While a rotation is under way the files may not fit: then those before are used. Raises
        RefusedError, OSError where there were none that did.
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
        """A SASL exchange that has not begun."""
        options = self.options()
        return get_sasl_mechanism(options["sasl_mechanism"])(**options)

    def options(self) -> dict[str, Untyped]:
        """Those of kafka-python's connections."""
        if not self.security.by_sasl:
            return {"security_protocol": self.security.protocol}
        return {
            "security_protocol": self.security.protocol,
            "sasl_mechanism": self.security.mechanism,
            "sasl_plain_username": self._username(),
            "sasl_plain_password": self._password(),
        }

    def explained(self, error: Exception) -> str:
        """In words, what kept a connection from being opened; nothing of it is secret."""
        if isinstance(error, ssl.SSLError):
            return of_tls(error, self.security)
        return str(error) or type(error).__name__

    def _username(self) -> str:
        name = self.security.username or ""
        if self.security.mechanism == "PLAIN":
            return name
        # RFC 5802, 5.1: what separates the parts of a message is not in a name.
        return name.replace("=", "=3D").replace(",", "=2C")

    def _password(self) -> str:
        path = self.security.password_file
        if path is None:
            return self.security.password or ""
        try:
            # One that is being written anew may be empty: that before is kept.
            self._password_read = path.read_text().removesuffix("\n") or self._password_read
        except (OSError, UnicodeDecodeError) as error:
            _log.warning("kafka_password_unreadable", path=str(path), error=type(error).__name__)
        return self._password_read

    def _stamp(self) -> _Stamp:
        security = self.security
        paths = (security.ca_file, security.certificate_file, security.key_file)
        return tuple(part for path in paths if path is not None for part in _stamp_of(path))


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
            # A key with a password would be asked for at the terminal.
            context.load_cert_chain(security.certificate_file, security.key_file, password="")
        except ssl.SSLError as error:
            raise RefusedError(unfit_files(error)) from error
    return context
