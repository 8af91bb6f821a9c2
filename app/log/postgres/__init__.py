"""The embedded message log: Kafka's topics, offsets and groups in PostgreSQL tables."""

from app.log.postgres.log import postgres_log

__all__ = ["postgres_log"]
