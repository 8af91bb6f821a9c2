"""Blocking reads of many records, for Spark tasks, where Spark has no reader.

Spark's own connector reads Kafka.
"""

from app.log.postgres.bulk import BulkRow, topic_rows

__all__ = ["BulkRow", "topic_rows"]
