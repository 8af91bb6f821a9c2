"""The columns of the data frames."""

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

# A discarded message. `body_hex` is the body in hexadecimal digits, NULL if it is too large.
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

# Messages: records of the log, or discarded messages. For a discarded message, `undelivered` is the
# id of its row in the database, and `timestamp_ms` is the time of the discard. For a record of the
# log, `undelivered` is NULL, and `timestamp_ms` is the time of the publication.
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
# A trace entry of a message in a subscription: the end of an attempt (SUCCESS, FAILED), or the
# discard (DISCARDED). All times are in microseconds. `at` counts from the epoch
# (`app.domain.trace.TraceEntry`). `resent` means that the message was sent again on request.
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
# Examples of messages on which two sets of filters differ. If `is_added` is true, only the proposed
# filters match the message. Otherwise only the current filters match it.
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
# Counts of the messages that were published in the same second (since the epoch). `read` counts all
# messages, `matched` those that the proposed filters match, `present` those that the current
# filters match, and `added` those that only the proposed filters match. `size` is the number of
# bytes of the bodies of the matched messages. `differing` is set in one row of each task: it has
# the task's first examples of messages on which the filters differ.
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
# Messages of the archive: the unchanged record, the size of its body, and the message id if it is
# text. `day` and `hour` (UTC) of the publication are in the names of the archive's folders.
ARCHIVED: Final = StructType(
    [
        *(field for field in MESSAGES if field.name != "undelivered"),
        StructField("message_id", StringType()),
        StructField("size", LongType(), nullable=False),
        StructField("day", DateType(), nullable=False),
        StructField("hour", IntegerType(), nullable=False),
    ]
)
# The messages that a retransmission sends again. `size` is the size of the body. If a discarded
# message is sent again, `undelivered` is the id of its discard.
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
# The messages that a retransmission sends again, with one row for consecutive offsets. A row stands
# for all offsets from `start` up to, but not including, `end`.
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
# Records that wait to be sent again. Only the archive still has them. `size` is the size of the
# body.
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
# Positions of messages in a topic.
POSITIONS: Final = StructType(
    [
        StructField("partition", IntegerType(), nullable=False),
        StructField("offset", LongType(), nullable=False),
    ]
)
# The original position of each retransmitted message, and its new position. The new position is
# NULL if the message is not appended yet.
RESENT: Final = StructType(
    [
        StructField("source_partition", IntegerType(), nullable=False),
        StructField("source_offset", LongType(), nullable=False),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
    ]
)
# The positions of records. `target` is the value of the header that says for which subscription the
# record is. It is NULL if the record is for all subscriptions (`app.domain.targeted`).
LEDGER_RECORDS: Final = StructType(
    [
        StructField("topic", StringType(), nullable=False),
        StructField("partition", IntegerType(), nullable=False),
        StructField("offset", LongType(), nullable=False),
        StructField("target", BinaryType()),
    ]
)
# The number of records of a partition, by subscription and kind of record.
# `app.domain.insight.ledger.Counted` explains the kinds.
LEDGER_COUNTS: Final = StructType(
    [
        StructField("subscription_id", StringType(), nullable=False),
        StructField("partition", IntegerType(), nullable=False),
        StructField("carried", BooleanType(), nullable=False),
        StructField("passed", BooleanType(), nullable=False),
        StructField("whose", StringType(), nullable=False),
        StructField("messages", LongType(), nullable=False),
        StructField("first", LongType(), nullable=False),
    ]
)
# The last discard of a subscription at each position of a partition.
PLACED_DISCARDS: Final = StructType(
    [
        StructField("subscription_id", StringType(), nullable=False),
        StructField("partition", IntegerType(), nullable=False),
        StructField("offset", LongType(), nullable=False),
        StructField("reason", StringType(), nullable=False),
        StructField("status", IntegerType()),
    ]
)
