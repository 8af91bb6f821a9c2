"""The columns of what is read."""

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DateType,
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

# Messages: records of the log, or (with `undelivered`, the row) discards. `timestamp_ms` is when
# they were published, or discarded.
MESSAGES: Final = StructType(
    [
        StructField("partition", IntegerType(), nullable=False),
        StructField("offset", LongType(), nullable=False),
        StructField("timestamp_ms", LongType(), nullable=False),
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField(
            "headers",
            ArrayType(
                StructType(
                    [
                        StructField("key", StringType(), nullable=False),
                        StructField("value", BinaryType()),
                    ]
                )
            ),
        ),
        StructField("undelivered", LongType()),
    ]
)
# What was traced of a message at a subscription: the end of an attempt (SUCCESS, FAILED), or that
# it was DISCARDED. Times are microseconds, `at` since the epoch (`app.domain.trace.TraceEntry`).
# `resent`: it was sent again on request.
TRACED: Final = StructType(
    [
        StructField("topic", StringType(), nullable=False),
        StructField("subscription_id", StringType(), nullable=False),
        StructField("subscription", StringType(), nullable=False),
        StructField("partition", IntegerType(), nullable=False),
        StructField("offset", LongType(), nullable=False),
        StructField("at", LongType(), nullable=False),
        StructField("status", StringType(), nullable=False),
        StructField("attempt", IntegerType(), nullable=False),
        StructField("queued", LongType()),
        StructField("waited", LongType()),
        StructField("connect", LongType()),
        StructField("took", LongType()),
        StructField("resent", BooleanType(), nullable=False),
    ]
)
# Messages that either proposed filters want and present ones do not (`is_added`), or the reverse.
DIFFERING: Final = StructType(
    [
        StructField("offset", LongType(), nullable=False),
        StructField("partition", IntegerType(), nullable=False),
        StructField("is_added", BooleanType(), nullable=False),
        StructField("timestamp_ms", LongType(), nullable=False),
        StructField("size", LongType(), nullable=False),
        StructField("message_id", StringType(), nullable=False),
    ]
)
# Messages by the second (since the epoch) of their publication: how many there were, and how many
# are wanted by proposed filters (with their bytes), by present ones, by the first alone. One row of
# each task has its first ones on which these filters differ.
ARRIVALS: Final = StructType(
    [
        StructField("second", LongType(), nullable=False),
        StructField("read", LongType(), nullable=False),
        StructField("matched", LongType(), nullable=False),
        StructField("present", LongType(), nullable=False),
        StructField("added", LongType(), nullable=False),
        StructField("size", LongType(), nullable=False),
        StructField("differing", ArrayType(DIFFERING)),
    ]
)
# Messages of the archive: the record as it was, its body's size, and its message's id, if that is
# text. The folders that it is in are called by `day` and `hour` (UTC) of its time.
ARCHIVED: Final = StructType(
    [
        *(field for field in MESSAGES if field.name != "undelivered"),
        StructField("message_id", StringType()),
        StructField("size", LongType(), nullable=False),
        StructField("day", DateType(), nullable=False),
        StructField("hour", IntegerType(), nullable=False),
    ]
)
# Messages that are to be sent again. `size` is that of the body.
CHOSEN: Final = StructType(
    [
        StructField("partition", IntegerType(), nullable=False),
        StructField("offset", LongType(), nullable=False),
        StructField("timestamp_ms", LongType(), nullable=False),
        StructField("size", LongType(), nullable=False),
        StructField("message_id", StringType(), nullable=False),
        StructField("undelivered", LongType()),
    ]
)
# The same, those that follow each other in one row: all offsets from `start` to before `end`.
RUNS: Final = StructType(
    [
        StructField("partition", IntegerType(), nullable=False),
        StructField("start", LongType(), nullable=False),
        StructField("end", LongType(), nullable=False),
        StructField("messages", LongType(), nullable=False),
        StructField("size", LongType(), nullable=False),
        StructField("undelivered", LongType()),
    ]
)
# Records that only the archive has, as they wait to be sent again. `size` is that of the body.
RECORDS: Final = StructType(
    [
        StructField("partition", IntegerType(), nullable=False),
        StructField("offset", LongType(), nullable=False),
        StructField("timestamp_ms", LongType(), nullable=False),
        StructField("size", LongType(), nullable=False),
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("header_names", ArrayType(BinaryType()), nullable=False),
        StructField("header_values", ArrayType(BinaryType()), nullable=False),
    ]
)
# Places of messages in a topic.
PLACES: Final = StructType(
    [
        StructField("partition", IntegerType(), nullable=False),
        StructField("offset", LongType(), nullable=False),
    ]
)
# Where messages of a topic were, and where they were appended again; null: they are yet to be.
RESENT: Final = StructType(
    [
        StructField("source_partition", IntegerType(), nullable=False),
        StructField("source_offset", LongType(), nullable=False),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
    ]
)
# Records of a partition of the log, counted by what they are: see
# `app.domain.insight.ledger.Counted`.
LEDGER_COUNTS: Final = StructType(
    [
        StructField("partition", IntegerType(), nullable=False),
        StructField("carried", BooleanType(), nullable=False),
        StructField("passed", BooleanType(), nullable=False),
        StructField("whose", StringType(), nullable=False),
        StructField("messages", LongType(), nullable=False),
        StructField("first", LongType(), nullable=False),
    ]
)
# Of each place in a partition, its last discard.
PLACED_DISCARDS: Final = StructType(
    [
        StructField("partition", IntegerType(), nullable=False),
        StructField("offset", LongType(), nullable=False),
        StructField("reason", StringType(), nullable=False),
        StructField("status", IntegerType()),
    ]
)
