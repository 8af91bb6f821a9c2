"""The embedded message log: Kafka's topics, offsets and groups on tables of PostgreSQL."""

from app.log.postgres.log import postgres_log

__all__ = ["postgres_log"]
