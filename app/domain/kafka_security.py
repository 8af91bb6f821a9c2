"""The configured security of connections to Kafka (pure)."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Final, Literal, NamedTuple, get_args

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
"""The protocol of a broker's listener."""

SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]

TokenProvider = Literal["endpoint", "aws-msk-iam"]
"""What makes access tokens: an endpoint, or a signature with AWS credentials (Amazon MSK, IAM)."""

MECHANISMS: Final[tuple[str, ...]] = get_args(SaslMechanism)


class SettingProblem(NamedTuple):
    """The name of a setting in the code, and what is wrong with the setting."""

    setting: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaOAuth:
    """Where the access tokens for OAUTHBEARER come from.

    If `provider` is "endpoint", tokens are requested at `token_url` with client credentials (RFC
    6749, 4.4). Otherwise tokens are signed with AWS credentials, which are looked up in the same
    places as by Amazon's clients.
    """

    provider: TokenProvider = "endpoint"
    aws_region: str | None = None
    token_url: str | None = None
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    client_secret_file: Path | None = None
    scope: str | None = None
    ca_file: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSecurity:
    """TLS and SASL of all connections to Kafka. The named files are read for each connection."""

    protocol: SecurityProtocol = "PLAINTEXT"
    mechanism: SaslMechanism | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    password_file: Path | None = None
    oauth: KafkaOAuth = KafkaOAuth()
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

    @property
    def by_token(self) -> bool:
        """Whether the client logs in with an access token."""
        return self.by_sasl and self.mechanism == "OAUTHBEARER"

    @property
    def by_msk_iam(self) -> bool:
        """Whether the access token is signed with AWS credentials."""
        return self.by_token and self.oauth.provider == "aws-msk-iam"


IN_THE_CLEAR: Final = KafkaSecurity()


def problems(security: KafkaSecurity) -> Iterator[SettingProblem]:
    """Yield the problems of the settings: missing settings, and settings without effect."""
    yield from _sasl_problems(security) if security.by_sasl else _without_sasl(security)
    yield from _tls_problems(security) if security.by_tls else _without_tls(security)


_PROTOCOL: Final = "ANGELIA_KAFKA_SECURITY_PROTOCOL is"
_OF_USERS: Final = ("username", "password", "password_file")
_OF_TLS: Final = ("ca_file", "certificate_file", "key_file")
_OF_AWS: Final = frozenset({"provider", "aws_region"})
_OF_ENDPOINTS: Final = tuple(each.name for each in fields(KafkaOAuth) if each.name not in _OF_AWS)
# The allowed form of the name of an AWS region. The form is checked, because the name becomes a
# part of a host name.
_REGION: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)+")


def _without_sasl(security: KafkaSecurity) -> Iterator[SettingProblem]:
    use = f"{_PROTOCOL} SASL_PLAINTEXT or SASL_SSL"
    yield from _useless("kafka_sasl_", security, ("mechanism", *_OF_USERS), use=use)
    yield from _without_tokens(security, use=use)


def _without_tls(security: KafkaSecurity) -> Iterator[SettingProblem]:
    yield from _useless("kafka_", security, _OF_TLS, use=f"{_PROTOCOL} SSL or SASL_SSL")


def _without_tokens(security: KafkaSecurity, *, use: str) -> Iterator[SettingProblem]:
    names = [each.name for each in fields(security.oauth)]
    yield from _useless("kafka_oauth_", security.oauth, names, use=use)


def _useless(
    prefix: str, part: KafkaSecurity | KafkaOAuth, names: Iterable[str], *, use: str
) -> Iterator[SettingProblem]:
    unset = type(part)()
    for name in names:
        if getattr(part, name) != getattr(unset, name):
            yield SettingProblem(f"{prefix}{name}", f"has no use unless {use}")


def _sasl_problems(security: KafkaSecurity) -> Iterator[SettingProblem]:
    if security.mechanism is None:
        message = f"must be one of {', '.join(MECHANISMS)}, for {security.protocol}"
        yield SettingProblem("kafka_sasl_mechanism", message)
    if security.by_token:
        use = "ANGELIA_KAFKA_SASL_MECHANISM is another one than OAUTHBEARER"
        yield from _useless("kafka_sasl_", security, _OF_USERS, use=use)
        yield from _token_problems(security.oauth)
    else:
        yield from _user_problems(security)
        use = "ANGELIA_KAFKA_SASL_MECHANISM is OAUTHBEARER"
        yield from _without_tokens(security, use=use)


def _user_problems(security: KafkaSecurity) -> Iterator[SettingProblem]:
    if security.username is None:
        yield SettingProblem("kafka_sasl_username", f"must be set, for {security.protocol}")
    if security.password is None and security.password_file is None:
        message = (
            f"must be set, or ANGELIA_KAFKA_SASL_PASSWORD_FILE instead, for {security.protocol}"
        )
        yield SettingProblem("kafka_sasl_password", message)


def _token_problems(oauth: KafkaOAuth) -> Iterator[SettingProblem]:
    use = "ANGELIA_KAFKA_OAUTH_PROVIDER is"
    if oauth.provider == "aws-msk-iam":
        yield from _useless("kafka_oauth_", oauth, _OF_ENDPOINTS, use=f"{use} endpoint")
        yield from _region_problems(oauth.aws_region)
    else:
        yield from _useless("kafka_oauth_", oauth, ("aws_region",), use=f"{use} aws-msk-iam")
        yield from _endpoint_problems(oauth)


def _region_problems(region: str | None) -> Iterator[SettingProblem]:
    if region is None:
        message = "must be set, or AWS_REGION instead, for aws-msk-iam"
        yield SettingProblem("kafka_oauth_aws_region", message)
    elif not _REGION.fullmatch(region):
        yield SettingProblem("kafka_oauth_aws_region", "must be the name of a region: eu-west-1")


def _endpoint_problems(oauth: KafkaOAuth) -> Iterator[SettingProblem]:
    for name in ("token_url", "client_id"):
        if getattr(oauth, name) is None:
            yield SettingProblem(f"kafka_oauth_{name}", "must be set, for OAUTHBEARER")
    if oauth.client_secret is None and oauth.client_secret_file is None:
        message = "must be set, or ANGELIA_KAFKA_OAUTH_CLIENT_SECRET_FILE instead, for OAUTHBEARER"
        yield SettingProblem("kafka_oauth_client_secret", message)


def _tls_problems(security: KafkaSecurity) -> Iterator[SettingProblem]:
    if security.certificate_file is not None and security.key_file is None:
        message = "must be set, for the certificate in ANGELIA_KAFKA_CERTIFICATE_FILE"
        yield SettingProblem("kafka_key_file", message)
    if security.key_file is not None and security.certificate_file is None:
        message = "must be set, for the key in ANGELIA_KAFKA_KEY_FILE"
        yield SettingProblem("kafka_certificate_file", message)
