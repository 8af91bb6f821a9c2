"""Opens the configured log.

Kafka's client takes 0.2 s of CPU and 10 MB to import, so it is imported only if it is used.
"""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from app.config import Settings
from app.domain.kafka_security import IN_THE_CLEAR, KafkaSecurity
from app.log.interface import MessageLog
from app.log.postgres import postgres_log
from app.postgres.urls import DatabaseUrl


def open_log(
    settings: Settings, *, database_url: DatabaseUrl
) -> AbstractAsyncContextManager[MessageLog]:
    """Open the log in Kafka if Kafka is configured, else the log in the database `database_url`."""
    if settings.kafka_bootstrap:
        from app.log.kafka import Compression, ReadOptions, kafka_log  # noqa: PLC0415 - imported only if it is used

        return kafka_log(
            settings.kafka_bootstrap,
            namespace=settings.namespace,
            security=settings.kafka_security,
            replication_factor=settings.replication_factor,
            min_insync_replicas=settings.min_insync_replicas,
            compression=Compression[settings.kafka_compression.upper()],
            options=ReadOptions(
                committed_only=settings.kafka_isolation_level == "read_committed",
                rack=settings.kafka_client_rack or "",
            ),
            idempotent=settings.kafka_idempotence,
        )
    return postgres_log(database_url, namespace=settings.namespace)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLocation:
    """Where the message log is: in Kafka, or in the database if `kafka_bootstrap` is None.

    All names of topics and groups begin with a prefix, the namespace.
    """

    kafka_bootstrap: str | None = None
    kafka_security: KafkaSecurity = IN_THE_CLEAR
    kafka_committed_only: bool = True
    kafka_idempotence: bool = True
    kafka_rack: str = ""
    namespace: str = ""


def log_at(url: str, location: LogLocation) -> AbstractAsyncContextManager[MessageLog]:
    """Open the log for Spark jobs. If the log is in the database, it is read at `url`."""
    if location.kafka_bootstrap is None:
        return postgres_log(url, namespace=location.namespace)
    from app.log.kafka import ReadOptions, kafka_log  # noqa: PLC0415 - imported only if it is used

    return kafka_log(
        location.kafka_bootstrap,
        namespace=location.namespace,
        security=location.kafka_security,
        options=ReadOptions(location.kafka_committed_only, location.kafka_rack),
        idempotent=location.kafka_idempotence,
    )
