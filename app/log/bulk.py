"""Blocking reads of many records for Spark tasks, for a log that Spark has no reader for.

Spark's own connector reads Kafka.
"""

from app.log.postgres.bulk import BulkRow, header_rows, topic_rows

__all__ = ["BulkRow", "header_rows", "topic_rows"]
