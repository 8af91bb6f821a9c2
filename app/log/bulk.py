"""Reads many records at once for Spark tasks, by blocking calls, from the log in PostgreSQL.

For a log in Kafka, Spark has a connector of its own.
"""

from app.log.postgres.bulk import BulkRow, header_rows, topic_rows

__all__ = ["BulkRow", "header_rows", "topic_rows"]
