"""Records in bulk, for Spark's tasks: by calls that block, where Spark has no reader of its own.

Kafka is read by Spark's connector.
"""

from app.log.postgres.bulk import BulkRow, topic_rows

__all__ = ["BulkRow", "topic_rows"]
