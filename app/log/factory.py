"""Which log runs."""

from contextlib import AbstractAsyncContextManager

from app.config import Settings
from app.log.interface import MessageLog
from app.log.kafka import Compression, kafka_log
from app.log.kafka.probe import what_listens
from app.log.postgres import postgres_log


def open_log(settings: Settings, *, database_url: str) -> AbstractAsyncContextManager[MessageLog]:
    """Kafka where it is configured, else the log in the database of `database_url`."""
    if settings.kafka_bootstrap:
        return kafka_log(
            settings.kafka_bootstrap,
            namespace=settings.namespace,
            replication_factor=settings.replication_factor,
            min_insync_replicas=settings.min_insync_replicas,
            compression=Compression[settings.kafka_compression.upper()],
        )
    return postgres_log(database_url, namespace=settings.namespace)


async def what_listens_instead(settings: Settings) -> str:
    """What listens where the log should, if that is something else; empty: nothing is known.

    For a log that does not answer.
    """
    return await what_listens(settings.kafka_bootstrap) if settings.kafka_bootstrap else ""


def log_at(
    url: str, *, kafka_bootstrap: str | None, namespace: str
) -> AbstractAsyncContextManager[MessageLog]:
    """The log for jobs of Spark: in Kafka if it is said where, else in the database at `url`."""
    if kafka_bootstrap is None:
        return postgres_log(url, namespace=namespace)
    return kafka_log(kafka_bootstrap, namespace=namespace)
