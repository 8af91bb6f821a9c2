"""Converts messages to the form of the archive. Input columns: `spark.schemas.MESSAGES`."""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own documents use this name

from spark.schemas import ARCHIVED

# The latest time for which there is an archive folder: the end of the year 9999. A foreign producer
# may write any time into a record. A message with a time before 1970 is put into the first hour,
# and a message with a later time than this one into the last hour.
_LAST_MS: Final = 253_402_300_799_999


def placed(messages: DataFrame) -> DataFrame:
    """Return the messages (columns `ARCHIVED`), sorted within each task for writing.

    The order is by day, hour, partition and offset. So the offsets in a file are in order, and a
    task has only one open file at a time.
    """
    time = F.timestamp_millis(_bounded(F.col("timestamp_ms")))
    described = messages.select(
        "partition",
        "offset",
        "timestamp_ms",
        "key",
        "value",
        "headers",
        F.expr("try_element_at(filter(headers, each -> each.key = 'id'), 1).value").alias("id"),
        F.coalesce(F.octet_length("value"), F.lit(0)).cast("bigint").alias("size"),
        F.to_date(time).alias("day"),
        F.hour(time).alias("hour"),
    )
    named = described.withColumn("message_id", F.try_validate_utf8(F.col("id").cast("string")))
    return named.select(*ARCHIVED.names).sortWithinPartitions("day", "hour", "partition", "offset")


def pieces(archived: DataFrame) -> DataFrame:
    """Return one row for each day and partition, with a range of offsets, times, and counts.

    The range has the offsets from `start` up to, but not including, `end`.
    """
    return (
        archived.groupBy("day", "partition")
        .agg(
            F.min("offset").alias("start"),
            (F.max("offset") + 1).alias("end"),
            F.min("timestamp_ms").alias("first_ms"),
            F.max("timestamp_ms").alias("last_ms"),
            F.count(F.lit(1)).alias("messages"),
            F.sum("size").alias("size"),
        )
        .select("day", "partition", "start", "end", "first_ms", "last_ms", "messages", "size")
    )


def last_runs(archived: DataFrame) -> DataFrame:
    """Return one row for each partition: its last offsets without a gap, and its `messages`.

    The last offsets without a gap are from `start` up to, but not including, `end`. `messages`
    counts all messages of the partition. This function shuffles all rows, so use it only if
    retention removed a part of the log during the read.
    """
    order = Window.partitionBy("partition").orderBy("offset")
    follows = F.col("offset") == F.lag("offset").over(order) + 1
    marked = archived.select("partition", "offset", F.coalesce(follows, F.lit(False)).alias("on"))  # noqa: FBT003 - Spark needs a column
    return (
        marked.groupBy("partition")
        .agg(
            F.max(F.when(~F.col("on"), F.col("offset"))).alias("start"),
            (F.max("offset") + 1).alias("end"),
            F.count(F.lit(1)).alias("messages"),
        )
        .select("partition", "start", "end", "messages")
    )


def _bounded(milliseconds: Column) -> Column:
    return F.least(F.greatest(milliseconds, F.lit(0)), F.lit(_LAST_MS))
