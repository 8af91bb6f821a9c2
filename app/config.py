"""Settings: the only reader of the environment."""

import os
import re
import shutil
import ssl
from functools import cached_property
from pathlib import Path
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from app.domain.durability import Replication
from app.domain.egress import LOOPBACK, EgressPolicy, Network
from app.domain.egress_proxy import EgressProxy
from app.domain.hosts import ANY, host_problem
from app.vault import Vault


def _authorities(path: Path) -> Path:
    # Unlike those of `Path`, this takes whatever text a variable may have.
    if not os.path.isfile(path):  # noqa: PTH113 - see above
        raise ValueError("must be the path of a file that exists")
    try:
        ssl.create_default_context(cafile=path)
    except ssl.SSLError as error:
        raise ValueError(f"must have certificates in PEM form, and {path} has none") from error
    return path


def _folder(path: Path) -> Path:
    if not os.path.isdir(path):  # noqa: PTH112 - as above
        raise ValueError("must be the path of a folder that exists")
    return path


def _unless_empty(value: object) -> object:
    """None for an empty text, which is how some ways to set an environment leave one out."""
    return None if value == "" else value


def _of_form(pattern: str, words: str) -> AfterValidator:
    """A text that matches the pattern; `words` say of which form that is."""

    def validate(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(words)
        return text

    return AfterValidator(validate)


def _keys(text: SecretStr) -> SecretStr:
    Vault.of(text.get_secret_value())
    return text


def _http_url(url: SecretStr) -> SecretStr:
    if not re.fullmatch(r"https?://[^/\s]+(/[^?#\s]*)?", url.get_secret_value()):
        raise ValueError("must be an http:// or https:// URL with a host, and without a query")
    return url


_HOST: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:]*)(:[0-9]{1,5})?")


def _without_credentials(place: str | None) -> str | None:
    """It is shown and stored: what opens a bucket is in the environment, or in Spark's settings."""
    parts = urlsplit(place or "")
    # A secret may have a slash in it: then what is before that looks like a host with a port.
    clean = "@" not in parts.geturl() and _HOST.fullmatch(parts.netloc)
    if parts.scheme and not clean:
        raise ValueError("must have no credentials: give them as AWS_ACCESS_KEY_ID, …")
    return place


def _header_fields(text: SecretStr) -> SecretStr:
    fields = _pairs(text)
    if not all(re.fullmatch(r"[!-9;-~]+", name) and value for name, value in fields):
        raise ValueError("must be name=value,…")
    return text


def _pairs(text: SecretStr) -> list[tuple[str, str]]:
    items = [item.partition("=") for item in text.get_secret_value().split(",")]
    return [(name.strip(), value.strip()) for name, _, value in items]


def _proxy_url(url: SecretStr) -> SecretStr:
    EgressProxy.of(url.get_secret_value())
    return url


def _hosts(hosts: tuple[str, ...]) -> tuple[str, ...]:
    for host in hosts:
        if host != ANY and (problem := host_problem(host)):
            raise ValueError(f"each {problem}")
    return hosts


def _registry_url(url: SecretStr) -> SecretStr:
    parts = urlsplit(url.get_secret_value())
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("must be an http:// or https:// URL with a host")
    return url


def _items(value: object) -> object:
    """The items of a list with commas, as environments have them."""
    if not isinstance(value, str):
        return value
    return tuple(item.strip() for item in value.split(",") if item.strip())


class Settings(BaseSettings):
    """Everything that can be set, as `ANGELIA_<NAME>`; each process reads it once, at its start."""

    model_config = SettingsConfigDict(
        env_prefix="ANGELIA_",
        frozen=True,
        extra="ignore",
        # What cannot be read may be a secret with a character too many.
        hide_input_in_errors=True,
    )

    home: Path = Field(
        default=Path(".angelia"), description="where the embedded PostgreSQL keeps its files"
    )
    database_url: SecretStr | None = Field(
        default=None,
        description="postgresql://user:password@host/database; without it one is started here",
    )
    kafka_bootstrap: str | None = Field(
        default=None, description="host:port,… of Kafka; without it the log is kept in PostgreSQL"
    )
    namespace: Annotated[
        str,
        _of_form(
            r"[a-zA-Z0-9_.-]{0,30}",
            "must be at most 30 letters, digits, dots, dashes and underscores",
        ),
    ] = Field(default="", description="prefix of every log topic and group")
    host: str = Field(default="127.0.0.1", description="address the API listens on")
    port: int = Field(default=8090, ge=0, le=65535, description="port the API listens on")
    connections_max: int = Field(
        default=4_000,
        ge=10,
        le=1_000_000,
        description="connections that an API process keeps open: docs/security.md",
    )
    only: Literal["all", "publish", "management"] = Field(
        default="all", description="the part of the API that this process serves"
    )
    auth: Literal["off", "keys"] | None = Field(
        default=None,
        description="whether callers need API keys: `keys`, or `off`, which it is by default where"
        " the database is embedded",
    )
    api_key: SecretStr | None = Field(
        default=None, description="the API key that commands of this machine send"
    )
    cors_origins: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_items)] = Field(
        default=(),
        description="origins whose pages may call the API from a browser: https://…, or *",
    )
    host_names: Annotated[
        Annotated[tuple[str, ...], AfterValidator(_hosts)], NoDecode, BeforeValidator(_items)
    ] = Field(
        default=(),
        description="further hosts that requests may name where callers need no keys:"
        " angelia.example.com, *.example.com, or * for any (docs/security.md)",
    )
    audit_days: int = Field(
        default=365, ge=1, le=3650, description="how long audit events and ended keys are kept"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="least severe event that is logged"
    )
    worker_address: Annotated[
        Annotated[str, _of_form(r".+:[0-9]{1,5}", "must be host:port")] | None,
        BeforeValidator(_unless_empty),
    ] = Field(
        default=None,
        description="host:port where a worker answers `/metrics` and `/status/ready`"
        " (docs/metrics.md); of several on a machine the next ones have the ports after it",
    )
    hermes_metrics: bool = Field(
        default=False,
        description="whether `…/metrics` and `/query/…/metrics` have figures as texts, which"
        " Hermes' Java classes read (docs/api.md)",
    )
    metrics_names_max: int = Field(
        default=1_000,
        ge=0,
        le=100_000,
        description="how many subscriptions have metrics of their own; the others are summed up",
    )
    schema_registry_url: Annotated[
        Annotated[SecretStr, AfterValidator(_registry_url)] | None, BeforeValidator(_unless_empty)
    ] = Field(
        default=None,
        description="http(s)://user:password@host of a registry as Confluent's, which then numbers"
        " the schemas of topics; without it they are kept here",
    )
    schema_subject_suffix: Annotated[
        str,
        _of_form(
            r"[a-zA-Z0-9_.-]{0,100}",
            "must be at most 100 letters, digits, dots, dashes and underscores",
        ),
    ] = Field(
        default="",
        description="what the registry's subjects have behind the names of their topics: -value",
    )
    otlp_endpoint: Annotated[
        Annotated[SecretStr, AfterValidator(_http_url)] | None, BeforeValidator(_unless_empty)
    ] = Field(
        default=None,
        description="http(s)://host:4318 that metrics and sampled spans are sent to, by OTLP",
    )
    otlp_headers: Annotated[
        Annotated[SecretStr, AfterValidator(_header_fields)] | None, BeforeValidator(_unless_empty)
    ] = Field(default=None, description="headers that go there: name=value,…")
    otlp_sample: float = Field(
        default=0.01,
        ge=0,
        le=1,
        description="share of messages that get a trace, where their publishers began none",
    )
    undelivered_days: int = Field(
        default=30, ge=1, le=3650, description="how long undelivered messages are kept"
    )
    traces_days: int = Field(default=7, ge=1, le=90, description="how long traces are kept")
    traces_gib_max: int = Field(
        default=10,
        ge=1,
        le=100_000,
        description="room on the disk, in GiB, that traces take: the oldest day goes first",
    )
    health_interval: int = Field(
        default=5, ge=1, le=300, description="seconds between two looks at how subscriptions do"
    )
    health_lag: int = Field(
        default=600,
        ge=1,
        le=2_592_000,
        description="a subscription is LAGGING when messages have waited for so many seconds",
    )
    health_unreachable: float = Field(
        default=0.5, gt=0, le=1, description="share of attempts without an answer: UNREACHABLE"
    )
    health_timing_out: float = Field(
        default=0.1, gt=0, le=1, description="share of attempts that time out: TIMING_OUT"
    )
    health_malfunctioning: float = Field(
        default=0.1, gt=0, le=1, description="share of attempts answered 5xx: MALFUNCTIONING"
    )
    health_malformed: float = Field(
        default=0.1,
        gt=0,
        le=1,
        description="share of attempts answered 4xx that are retried: RECEIVING_MALFORMED_MESSAGES",
    )
    health_rate_min: float = Field(
        default=2.0, ge=0, le=1_000_000, description="attempts a second from which shares count"
    )
    alert_loss_hours: float = Field(
        default=6.0, gt=0, le=720, description="an alert is raised so long before messages are lost"
    )
    alert_undelivered: float = Field(
        default=0.05,
        gt=0,
        le=1,
        description="an alert is raised when such a share of messages is discarded in a minute",
    )
    alert_expiry_days: int = Field(
        default=14,
        ge=1,
        le=365,
        description="an alert is raised so long before certificates and signing secrets expire",
    )
    allow_private_endpoints: Annotated[tuple[Network, ...], NoDecode, BeforeValidator(_items)] = (
        Field(
            default=(),
            description="networks beside the public ones that endpoints may be in: 10.0.0.0/8,…",
        )
    )
    ca_file: Annotated[Path, AfterValidator(_authorities)] | None = Field(
        default=None,
        description="PEM file of authorities that endpoints' certificates may be from, too",
    )
    secret_key: Annotated[
        Annotated[SecretStr, AfterValidator(_keys)] | None, BeforeValidator(_unless_empty)
    ] = Field(
        default=None,
        description="keys that stored secrets are encrypted with: see docs/security.md",
    )
    egress_proxy: Annotated[SecretStr, AfterValidator(_proxy_url)] | None = Field(
        default=None,
        description="http://user:password@host:port that deliveries leave through, by CONNECT",
    )
    egress_direct: Annotated[tuple[Network, ...], NoDecode, BeforeValidator(_items)] = Field(
        default=LOOPBACK,
        description="networks that deliveries reach without the egress proxy",
    )
    replication_factor: int = Field(default=1, ge=1, description="replicas of each new Kafka topic")
    min_insync_replicas: int | None = Field(
        default=None,
        ge=1,
        description=(
            "replicas in sync without which Kafka takes no messages (`ack: ALL`); without it one"
            " less than a topic has, at least 1"
        ),
    )
    kafka_compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = Field(
        default="none", description="how messages are packed for Kafka: less disk, more CPU"
    )

    @property
    def replication(self) -> Replication | None:
        """Kafka's, of new topics; None: the log is kept in PostgreSQL."""
        if self.embedded_log:
            return None
        return Replication(self.replication_factor, self.min_insync_replicas)

    @cached_property
    def egress(self) -> EgressPolicy:
        """Where deliveries may go; who has the database here has receivers here, too."""
        given = "allow_private_endpoints" in self.model_fields_set or not self.embedded_database
        return EgressPolicy(allowed=self.allow_private_endpoints if given else LOOPBACK)

    @cached_property
    def proxy(self) -> EgressProxy | None:
        """What deliveries leave through; None where they need nothing."""
        if self.egress_proxy is None:
            return None
        return EgressProxy.of(self.egress_proxy.get_secret_value(), direct=self.egress_direct)

    spark_master: str = Field(
        default="local[*]",
        description="where Spark jobs run: this machine, or the master of a cluster",
    )
    spark_memory: Annotated[
        str,
        _of_form(r"[1-9][0-9]{0,5}[mg]", "must be a whole number of MiB or GiB: 512m, 2g"),
    ] = Field(
        default="1g",
        description="memory of the Spark runner: on this machine, that of its jobs too",
    )
    spark_output: Annotated[str | None, AfterValidator(_without_credentials)] = Field(
        default=None,
        description="folder or URI (s3a://…) for Parquet results; without it `spark` in the home",
    )

    spark_jars: Annotated[Path, AfterValidator(_folder)] | None = Field(
        default=None,
        description="folder of Spark's connectors (Kafka, S3); without it Maven Central has them",
    )

    @cached_property
    def embedded_database(self) -> bool:
        """Whether PostgreSQL is ours to start and stop."""
        return self.database_url is None

    @cached_property
    def access_controlled(self) -> bool:
        """Whether callers need API keys."""
        return (self.auth or ("off" if self.embedded_database else "keys")) == "keys"

    @cached_property
    def embedded_log(self) -> bool:
        """Whether the message log is in PostgreSQL."""
        return self.kafka_bootstrap is None

    @cached_property
    def otlp_header_fields(self) -> dict[str, str]:
        """What goes with each request to the OTLP endpoint."""
        return dict(_pairs(self.otlp_headers)) if self.otlp_headers else {}

    @cached_property
    def spark_results(self) -> str:
        """Where the Parquet results of Spark jobs go, without a slash at the end."""
        return (self.spark_output or str(self.home.resolve() / "spark")).rstrip("/")

    @cached_property
    def spark_on_s3(self) -> bool:
        """Whether these go to S3, for which Spark needs Hadoop's connector."""
        return self.spark_results.startswith("s3a://")

    def environment(self) -> dict[str, str]:
        """Our environment with these settings in it: a child process reads exactly them."""
        prefix = self.model_config["env_prefix"]
        mine = {f"{prefix}{name}".upper() for name in Settings.model_fields}
        others = {name: text for name, text in os.environ.items() if name.upper() not in mine}
        given = {
            f"{prefix}{name}".upper(): _as_text(getattr(self, name))
            for name in self.model_fields_set
            if getattr(self, name) is not None
        }
        return others | given


def java_command() -> str | None:
    """The Java that Spark would start, as its scripts find it; None when there is none."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which(f"{home}/bin/java" if home else "java")


def _as_text(value: object) -> str:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, tuple):
        return ",".join(str(each) for each in value)
    return str(value)
