"""The configured security of connections to Kafka (pure)."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, NamedTuple, get_args

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
"""The protocol of a broker's listener."""

SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]

MECHANISMS: Final[tuple[str, ...]] = get_args(SaslMechanism)


class SettingProblem(NamedTuple):
    """A setting by its name in the code, and what is wrong with it."""

    setting: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSecurity:
    """TLS and SASL of all connections to Kafka. Its files are read for each connection."""

    protocol: SecurityProtocol = "PLAINTEXT"
    mechanism: SaslMechanism | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    password_file: Path | None = None
    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None

    @property
    def by_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.protocol in {"SSL", "SASL_SSL"}

    @property
    def by_sasl(self) -> bool:
        """Whether the client logs in by SASL."""
        return self.protocol in {"SASL_PLAINTEXT", "SASL_SSL"}


IN_THE_CLEAR: Final = KafkaSecurity()


def problems(security: KafkaSecurity) -> Iterator[SettingProblem]:
    """Yield the problems of settings: those that are missing, and those without effect."""
    yield from _sasl_problems(security) if security.by_sasl else _without_use(security, "sasl")
    yield from _tls_problems(security) if security.by_tls else _without_use(security, "tls")


_OF_SASL: Final = ("mechanism", "username", "password", "password_file")
_OF_TLS: Final = ("ca_file", "certificate_file", "key_file")


def _without_use(security: KafkaSecurity, kind: Literal["sasl", "tls"]) -> Iterator[SettingProblem]:
    names, wanted = (
        (_OF_SASL, "SASL_PLAINTEXT or SASL_SSL") if kind == "sasl" else (_OF_TLS, "SSL or SASL_SSL")
    )
    for name in names:
        if getattr(security, name) is not None:
            setting = f"kafka_{'sasl_' if kind == 'sasl' else ''}{name}"
            message = f"has no use unless ANGELIA_KAFKA_SECURITY_PROTOCOL is {wanted}"
            yield SettingProblem(setting, message)


def _sasl_problems(security: KafkaSecurity) -> Iterator[SettingProblem]:
    if security.mechanism is None:
        message = f"must be one of {', '.join(MECHANISMS)}, for {security.protocol}"
        yield SettingProblem("kafka_sasl_mechanism", message)
    if security.username is None:
        yield SettingProblem("kafka_sasl_username", f"must be set, for {security.protocol}")
    if security.password is None and security.password_file is None:
        message = (
            f"must be set, or ANGELIA_KAFKA_SASL_PASSWORD_FILE instead, for {security.protocol}"
        )
        yield SettingProblem("kafka_sasl_password", message)


def _tls_problems(security: KafkaSecurity) -> Iterator[SettingProblem]:
    if security.certificate_file is not None and security.key_file is None:
        message = "must be set, for the certificate in ANGELIA_KAFKA_CERTIFICATE_FILE"
        yield SettingProblem("kafka_key_file", message)
    if security.key_file is not None and security.certificate_file is None:
        message = "must be set, for the key in ANGELIA_KAFKA_KEY_FILE"
        yield SettingProblem("kafka_certificate_file", message)
