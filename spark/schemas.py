"""The columns of what is read."""

from typing import Final

from pyspark.sql.types import (
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

# One discard. `body_hex` is the body in hexadecimal digits, NULL where it is too large to look at.
DISCARDS: Final = StructType(
    [
        StructField("subscription_id", StringType(), nullable=False),
        StructField("topic", StringType(), nullable=False),
        StructField("subscription", StringType(), nullable=False),
        StructField("message_id", StringType(), nullable=False),
        StructField("discarded_at", TimestampType(), nullable=False),
        StructField("reason", StringType(), nullable=False),
        StructField("status", IntegerType()),
        StructField("attempts", IntegerType(), nullable=False),
        StructField("size", LongType(), nullable=False),
        StructField("body_hex", StringType()),
    ]
)
