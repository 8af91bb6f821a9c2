"""The settings of the database and of the message log: a part of `app.config.Settings`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr
from pydantic_settings import BaseSettings

from app.domain.kafka_security import (
    SaslMechanism,
    SecurityProtocol,
    SettingProblem,
    TokenProvider,
)
from app.secret_files import text_or_file
from app.setting_forms import authorities, brokers, of_form, readable, token_url, unless_empty

_T = TypeVar("_T")
Optional = Annotated[_T | None, BeforeValidator(unless_empty)]
"""A setting for which an empty text is none."""

Authorities = Optional[Annotated[Path, AfterValidator(authorities)]]
TextFile = Annotated[Path, AfterValidator(readable)]


class StoreSettings(BaseSettings):
    """Where data and messages are stored, and how connections to these stores are secured."""

    home: Path = Field(
        default=Path(".angelia"),
        description="folder of the embedded PostgreSQL, `secret.key` and Spark's results",
    )
    database_url: SecretStr | None = Field(
        default=None,
        description=(
            "`postgresql://user:password@host/database`; without it Angelia starts a "
            "PostgreSQL of its own"
        ),
    )
    database_password: Optional[SecretStr] = Field(
        default=None, description="password of the database, instead of one in its URL"
    )
    database_direct_url: Optional[SecretStr] = Field(
        default=None,
        description=(
            "URL of the server itself, where `ANGELIA_DATABASE_URL` is that of a pgbouncer "
            "(docs/postgres.md)"
        ),
    )
    kafka_bootstrap: Optional[Annotated[str, AfterValidator(brokers)]] = Field(
        default=None,
        description="`host:port,…` of Kafka brokers; without it the message log is in PostgreSQL",
    )
    kafka_security_protocol: SecurityProtocol = Field(
        default="PLAINTEXT", description="what the brokers' listeners speak (docs/kafka.md)"
    )
    kafka_sasl_mechanism: Optional[SaslMechanism] = Field(
        default=None, description="how brokers are told who we are, with SASL"
    )
    kafka_sasl_username: Optional[str] = Field(default=None, description="user name for SASL")
    kafka_sasl_password: Optional[SecretStr] = Field(default=None, description="password for SASL")
    kafka_oauth_provider: TokenProvider = Field(
        default="endpoint",
        description="where access tokens come from, for `OAUTHBEARER` (docs/kafka.md)",
    )
    kafka_oauth_aws_region: Optional[str] = Field(
        default=None,
        description=(
            "region of the brokers, for `aws-msk-iam`; without it that in `AWS_REGION` or "
            "`AWS_DEFAULT_REGION`"
        ),
    )
    kafka_oauth_token_url: Optional[Annotated[str, AfterValidator(token_url)]] = Field(
        default=None, description="endpoint of access tokens, for `OAUTHBEARER` (docs/kafka.md)"
    )
    kafka_oauth_client_id: Optional[str] = Field(default=None, description="client that asks there")
    kafka_oauth_client_secret: Optional[SecretStr] = Field(
        default=None, description="secret of this client"
    )
    kafka_oauth_scope: Optional[str] = Field(
        default=None, description="scope that tokens are requested for"
    )
    kafka_oauth_ca_file: Authorities = Field(
        default=None, description="PEM file of the endpoint's authorities; else the system's"
    )
    kafka_ca_file: Authorities = Field(
        default=None,
        description="PEM file of the authorities for brokers' certificates; else the system's",
    )
    kafka_certificate_file: Optional[TextFile] = Field(
        default=None, description="PEM file of the certificate that brokers are shown"
    )
    kafka_key_file: Optional[TextFile] = Field(
        default=None, description="PEM file of its private key, without a password"
    )
    namespace: Annotated[
        str,
        of_form(
            r"[a-zA-Z0-9_.-]{0,30}",
            "must be at most 30 letters, digits, dots, dashes and underscores",
        ),
    ] = Field(default="", description="prefix of every Kafka topic and consumer group")

    def useless_of_database(self) -> Iterator[SettingProblem]:
        """Yield settings of a database that is not named. The embedded one would be used."""
        if self.database_url is not None:
            return
        for name in ("database_password", "database_direct_url"):
            text, file = text_or_file(getattr(self, name))
            if text or file:
                shown = f"{name}_file" if file else name
                yield SettingProblem(shown, "has no use unless ANGELIA_DATABASE_URL is set")
