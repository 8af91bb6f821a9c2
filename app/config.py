"""The settings of Angelia, which are read from the environment.

Beside this module, only `app.secret_files`, `app.cli.environment` and `app.native` read it.
"""

import os
import shutil
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from app.domain.durability import Replication
from app.domain.kafka_security import (
    KafkaOAuth,
    KafkaSecurity,
    SettingProblem,
    problems,
)
from app.domain.network.egress import LOOPBACK, EgressPolicy, Network
from app.domain.network.egress_proxy import EgressProxy
from app.secret_files import SecretFiles, as_text, text_or_file, variable_of, variables
from app.setting_forms import (
    authorities,
    folder,
    header_fields,
    host_and_port,
    hosts,
    http_url,
    items,
    of_form,
    origins,
    pairs,
    proxy_url,
    registry_url,
    unless_empty,
    without_credentials,
)
from app.store_settings import Optional, StoreSettings
from app.vault import Vault


def _keys(text: SecretStr) -> SecretStr:
    Vault.of(text.get_secret_value())
    return text


def _of_setting(problem: SettingProblem) -> InitErrorDetails:
    kind = PydanticCustomError("of_several", "{message}", {"message": problem.message})
    return InitErrorDetails(type=kind, loc=(problem.setting,), input=None)


_Networks = Annotated[tuple[Network, ...], NoDecode, BeforeValidator(items)]


def _in_a_region(security: KafkaSecurity) -> KafkaSecurity:
    """Return `security` with an AWS region.

    If `security` names no region, the region is from AWS' own environment variables.
    """
    around = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    region = security.oauth.aws_region or around or None
    return replace(security, oauth=replace(security.oauth, aws_region=region))


class Settings(StoreSettings):
    """All settings, from the variables `ANGELIA_<NAME>`.

    Each process reads them once, at its start.
    """

    model_config = SettingsConfigDict(
        env_prefix="ANGELIA_",
        frozen=True,
        extra="ignore",
        # An error does not show the value of a setting. The value may be a secret with one wrong
        # character.
        hide_input_in_errors=True,
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - a part of the signature
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - a part of the signature
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources of settings: arguments, then secrets in files, then the environment.

        A setting is read from the first source that has it.
        """
        return init_settings, SecretFiles(settings_cls), env_settings

    host: str = Field(default="127.0.0.1", description="address that the API listens on")
    port: int = Field(
        default=8090, ge=0, le=65535, description="port that the API listens on; 0 takes a free one"
    )
    connections_max: int = Field(
        default=4_000,
        ge=10,
        le=1_000_000,
        description="connections that one API process keeps open (docs/security.md)",
    )
    only: Literal["all", "publish", "management"] = Field(
        default="all", description="routes that this API process serves"
    )
    auth: Literal["off", "keys"] | None = Field(
        default=None,
        description=(
            "whether callers need API keys; the default is `off` with the embedded "
            "database, else `keys`"
        ),
    )
    api_key: SecretStr | None = Field(
        default=None, description="API key that the commands on this machine send"
    )
    cors_origins: Annotated[
        Annotated[tuple[str, ...], AfterValidator(origins)], NoDecode, BeforeValidator(items)
    ] = Field(
        default=(),
        description="origins of web pages that may call the API: `https://…`; `*` allows all",
    )
    host_names: Annotated[
        Annotated[tuple[str, ...], AfterValidator(hosts)], NoDecode, BeforeValidator(items)
    ] = Field(
        default=(),
        description=(
            "further host names that requests may have where no API keys are needed: "
            "`angelia.example.com`, `*.example.com`; `*` allows all "
            "(docs/security.md)"
        ),
    )
    audit_days: int = Field(
        default=365, ge=1, le=3650, description="days that audit events and ended API keys are kept"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="lowest level that is logged"
    )
    worker_address: Annotated[
        Annotated[str, AfterValidator(host_and_port)] | None,
        BeforeValidator(unless_empty),
    ] = Field(
        default=None,
        description=(
            "`host:port` where a worker serves `/metrics` and `/status/ready` "
            "(docs/metrics.md); further workers on the machine take the next ports"
        ),
    )
    hermes_metrics: bool = Field(
        default=False,
        description=(
            "whether `…/metrics` and `/query/…/metrics` give numbers as text, as "
            "Hermes' Java classes read them (docs/api.md)"
        ),
    )
    metrics_names_max: int = Field(
        default=1_000,
        ge=0,
        le=100_000,
        description=(
            "number of subscriptions that have metrics of their own; all others are summed up"
        ),
    )
    schema_registry_url: Optional[Annotated[SecretStr, AfterValidator(registry_url)]] = Field(
        default=None,
        description=(
            "`http(s)://user:password@host` of a Confluent-compatible schema "
            "registry; without it Angelia keeps the schemas"
        ),
    )
    schema_subject_suffix: Annotated[
        str,
        of_form(
            r"[a-zA-Z0-9_.-]{0,100}",
            "must be at most 100 letters, digits, dots, dashes and underscores",
        ),
    ] = Field(
        default="",
        description=(
            "what the registry's subjects have after the topic's name, for example `-value`"
        ),
    )
    otlp_endpoint: Optional[Annotated[SecretStr, AfterValidator(http_url)]] = Field(
        default=None,
        description="`http(s)://host:4318` that metrics and sampled spans are sent to",
    )
    otlp_headers: Optional[Annotated[SecretStr, AfterValidator(header_fields)]] = Field(
        default=None, description="headers of these requests: `name=value,…`"
    )
    otlp_sample: float = Field(
        default=0.01,
        ge=0,
        le=1,
        description="share of messages that get a trace when their publishers began none",
    )
    undelivered_days: int = Field(
        default=30, ge=1, le=3650, description="days that undelivered messages are kept"
    )
    traces_days: int = Field(default=7, ge=1, le=90, description="days that traces are kept")
    traces_gib_max: int = Field(
        default=10,
        ge=1,
        le=100_000,
        description="disk space of traces in GiB; beyond it the oldest day is deleted",
    )
    health_interval: int = Field(
        default=5,
        ge=1,
        le=300,
        description="seconds between two evaluations of subscription health",
    )
    health_lag: int = Field(
        default=600,
        ge=1,
        le=2_592_000,
        description="seconds that messages wait before a subscription is `LAGGING`",
    )
    health_unreachable: float = Field(
        default=0.5,
        gt=0,
        le=1,
        description="share of attempts without an answer that means `UNREACHABLE`",
    )
    health_timing_out: float = Field(
        default=0.1,
        gt=0,
        le=1,
        description="share of attempts that time out that means `TIMING_OUT`",
    )
    health_malfunctioning: float = Field(
        default=0.1,
        gt=0,
        le=1,
        description="share of attempts answered 5xx that means `MALFUNCTIONING`",
    )
    health_malformed: float = Field(
        default=0.1,
        gt=0,
        le=1,
        description=(
            "share of attempts answered 4xx and retried that means `RECEIVING_MALFORMED_MESSAGES`"
        ),
    )
    health_rate_min: float = Field(
        default=2.0,
        ge=0,
        le=1_000_000,
        description="attempts a second below which these shares do not count",
    )
    alert_loss_hours: float = Field(
        default=6.0,
        gt=0,
        le=720,
        description="hours before messages would be lost at which an alert is raised",
    )
    alert_undelivered: float = Field(
        default=0.05,
        gt=0,
        le=1,
        description="share of messages discarded in a minute at which an alert is raised",
    )
    alert_expiry_days: int = Field(
        default=14,
        ge=1,
        le=365,
        description=(
            "days before a certificate or signing secret expires at which an alert is raised"
        ),
    )
    allow_private_endpoints: _Networks = Field(
        default=(),
        description="networks that endpoints may be in besides the public ones: `10.0.0.0/8,…`",
    )
    ca_file: Annotated[Path, AfterValidator(authorities)] | None = Field(
        default=None,
        description="PEM file of further authorities for the certificates of endpoints",
    )
    secret_key: Optional[Annotated[SecretStr, AfterValidator(_keys)]] = Field(
        default=None,
        description="keys that encrypt stored secrets (docs/security.md)",
    )
    egress_proxy: Annotated[SecretStr, AfterValidator(proxy_url)] | None = Field(
        default=None,
        description=(
            "`http://user:password@host:port` of a proxy that deliveries go through by CONNECT"
        ),
    )
    egress_direct: _Networks = Field(
        default=LOOPBACK, description="networks that deliveries reach without the proxy"
    )
    replication_factor: int = Field(default=1, ge=1, description="replicas of each new Kafka topic")
    min_insync_replicas: int | None = Field(
        default=None,
        ge=1,
        description=(
            "in-sync replicas without which Kafka accepts no message (`ack: ALL`); "
            "the default is one less than a topic has, at least 1"
        ),
    )
    kafka_compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = Field(
        default="none", description="compression of messages in Kafka: less disk space, more CPU"
    )
    kafka_isolation_level: Literal["read_committed", "read_uncommitted"] = Field(
        default="read_committed",
        description="whether messages of transactions wait until these are committed",
    )
    kafka_client_rack: Optional[str] = Field(
        default=None,
        description="`broker.rack` of the nearest brokers: replicas there are read (docs/kafka.md)",
    )
    kafka_idempotence: bool = Field(
        default=True,
        description="whether Kafka stores a message once if its acknowledgement is lost on the way",
    )

    @model_validator(mode="after")
    def _settings_go_together(self) -> Self:
        if found := [*problems(self.kafka_security), *self.useless_of_database()]:
            # Each error is raised as the error of one setting, so that the name of the setting is
            # shown.
            raise ValidationError.from_exception_data("Settings", list(map(_of_setting, found)))
        return self

    @property
    def kafka_security(self) -> KafkaSecurity:
        """Return how connections to Kafka are secured."""
        password, password_file = text_or_file(self.kafka_sasl_password)
        secret, secret_file = text_or_file(self.kafka_oauth_client_secret)
        names = ("provider", "aws_region", "token_url", "client_id", "scope", "ca_file")
        oauth = {name: getattr(self, f"kafka_oauth_{name}") for name in names}
        security = KafkaSecurity(
            protocol=self.kafka_security_protocol,
            mechanism=self.kafka_sasl_mechanism,
            username=self.kafka_sasl_username,
            password=password,
            password_file=password_file,
            oauth=KafkaOAuth(**oauth, client_secret=secret, client_secret_file=secret_file),
            ca_file=self.kafka_ca_file,
            certificate_file=self.kafka_certificate_file,
            key_file=self.kafka_key_file,
        )
        return _in_a_region(security) if security.by_msk_iam else security

    @property
    def replication(self) -> Replication | None:
        """Return the replication of new topics in Kafka; None if the log is in PostgreSQL."""
        if self.embedded_log:
            return None
        return Replication(self.replication_factor, self.min_insync_replicas)

    @cached_property
    def egress(self) -> EgressPolicy:
        """Return to which addresses deliveries may be sent.

        With an embedded database, the default allows subscribers on this machine.
        """
        given = "allow_private_endpoints" in self.model_fields_set or not self.embedded_database
        return EgressPolicy(allowed=self.allow_private_endpoints if given else LOOPBACK)

    @cached_property
    def proxy(self) -> EgressProxy | None:
        """Return the proxy for deliveries; None if deliveries use no proxy."""
        if self.egress_proxy is None:
            return None
        return EgressProxy.of(self.egress_proxy.get_secret_value(), direct=self.egress_direct)

    spark_master: str = Field(
        default="local[*]",
        description="Spark master that runs the jobs: this machine, or a cluster's",
    )
    spark_memory: Annotated[
        str,
        of_form(r"[1-9][0-9]{0,5}[mg]", "must be a whole number of MiB or GiB: 512m, 2g"),
    ] = Field(
        default="1g",
        description="memory of the Spark runner; on this machine its jobs are in it, too",
    )
    spark_tasks_max: int = Field(
        default=32,
        ge=1,
        le=10_000,
        description=(
            "tasks that one process of Spark jobs runs at a time, on a cluster too; each may have "
            "several connections to PostgreSQL (docs/spark.md)"
        ),
    )
    spark_output: Annotated[str | None, AfterValidator(without_credentials)] = Field(
        default=None,
        description=(
            "folder or URI (`s3a://…`) of Parquet results; the default is `spark` in `ANGELIA_HOME`"
        ),
    )
    spark_jars: Annotated[Path, AfterValidator(folder)] | None = Field(
        default=None,
        description=(
            "folder of Spark's connectors (Kafka, S3); without it they come from Maven Central"
        ),
    )

    @cached_property
    def embedded_database(self) -> bool:
        """Whether Angelia starts and stops PostgreSQL itself."""
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
        """Return the headers of each request to the OTLP endpoint."""
        return dict(pairs(self.otlp_headers)) if self.otlp_headers else {}

    @cached_property
    def spark_results(self) -> str:
        """Return where Parquet results of Spark jobs are written, without a slash at the end."""
        return (self.spark_output or str(self.home.resolve() / "spark")).rstrip("/")

    @cached_property
    def spark_on_s3(self) -> bool:
        """Whether results of Spark jobs are written to S3. Then Spark needs Hadoop's connector."""
        return self.spark_results.startswith("s3a://")

    def environment(self) -> dict[str, str]:
        """Return the environment variables for a child process that has the same settings."""
        mine = {each for name in Settings.model_fields for each in variables(Settings, name)}
        others = {name: text for name, text in os.environ.items() if name.upper() not in mine}
        given = {name: getattr(self, name) for name in self.model_fields_set}
        return others | {
            variable_of(Settings, name, value): as_text(value)
            for name, value in given.items()
            if value is not None
        }


def java_command() -> str | None:
    """Return the path of the Java that Spark's scripts would start; None if there is none."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which(f"{home}/bin/java" if home else "java")


def spark_conf_folder() -> Path | None:
    """Return the folder with the file `spark-defaults.conf`; None if PySpark's own folder is used.

    The folder is found in the same way as Spark's scripts find it.
    """
    folder, home = os.environ.get("SPARK_CONF_DIR"), os.environ.get("SPARK_HOME")
    if folder:
        return Path(folder)
    return Path(home) / "conf" if home else None


def let_spark_run(python: str, *, executors: str | None = None) -> None:
    """Set which Python Spark runs on this machine, and which one on executors.

    On this machine, Spark runs `python`. Executors run the Python that the variable
    `PYSPARK_PYTHON` names. If this variable is not set, they run `executors`, or `python` if
    `executors` is None. The settings are environment variables, which Spark reads when it starts.

    For data sources, Spark runs the executors' Python also on this machine. So `executors` may be a
    name such as `python3.11`: on this machine, the name is found as `python`; on executors, it is
    found as another Python.
    """
    folder, search_path = str(Path(python).parent), os.environ.get("PATH", os.defpath)
    if not search_path.startswith(f"{folder}{os.pathsep}"):
        os.environ["PATH"] = f"{folder}{os.pathsep}{search_path}"
    os.environ["PYSPARK_DRIVER_PYTHON"] = python
    os.environ.setdefault("PYSPARK_PYTHON", executors or python)
