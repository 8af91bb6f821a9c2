"""Counts discards, and groups their failures into clusters.

Input columns: `spark.schemas.DISCARDS`.
"""

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own documents use this name

from app.domain.insight.analytics import FailurePattern
from spark.transforms.fields import features_of

ERROR_LENGTH_MAX: Final = 200
SHAPE_LENGTH_MAX: Final = 300
# The maximum number of clusters. The largest clusters are enough to explain the failures.
CLUSTERS_MAX: Final = 1_000

# Patterns for the parts of reasons that vary, as Java's regular expressions, each with its
# replacement. The most specific patterns come first.
_MASKS: Final = (
    (r"\bhttps?://[^\s\"')]+", "<url>"),
    (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?([.,]\d+)?(Z|[+-]\d\d:?\d\d)?", "<time>"),
    (r"(?i)\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "<id>"),
    (r"\b\d{1,3}(\.\d{1,3}){3}(:\d+)?\b", "<address>"),
    (r"(?i)\b(?=[a-f]*\d)[0-9a-f]{12,}\b", "<id>"),
    (r"\"[^\"]*\"|(?<!\w)'[^']*'(?!\w)", "<text>"),
    # Replace numbers, but keep status codes, because status codes distinguish failures.
    (r"(?<!status code:)(?<!\w)\d+([.,]\d+)*", "<n>"),
    (r"\s+", " "),
)


def described(discards: DataFrame) -> DataFrame:
    """Return the discards without their bodies, but with further columns.

    `error` is the masked reason. `shape` and `features` describe the body (see
    `spark.transforms.fields`). `hour` is the hour of the discard.
    """
    return discards.select(
        "subscription_id",
        "topic",
        "subscription",
        "message_id",
        "discarded_at",
        "reason",
        "status",
        "attempts",
        "size",
        masked(F.col("reason")).alias("error"),
        _shape(F.col("body_hex"), F.col("size")).alias("shape"),
        features_of(_text(F.col("body_hex"))).alias("features"),
        F.date_trunc("hour", "discarded_at").alias("hour"),
    )


def counted(described_discards: DataFrame) -> DataFrame:
    """Return counts of discards by topic, subscription, masked reason, status and hour."""
    alike = ("topic", "subscription", F.col("error").alias("reason"), "status", "hour")
    return described_discards.groupBy(*alike).agg(
        F.count(F.lit(1)).alias("messages"),
        F.sum("attempts").alias("attempts"),
        F.sum("size").alias("volume"),
    )


def clustered(described_discards: DataFrame) -> DataFrame:
    """Return the CLUSTERS_MAX largest clusters.

    A cluster has the discards with the same topic, status, error and shape.
    """
    newest = F.struct("discarded_at", "message_id", "subscription", "reason")
    alike = described_discards.groupBy("topic", "status", "error", "shape").agg(
        F.count(F.lit(1)).alias("messages"),
        F.collect_set("subscription_id").alias("subscription_ids"),
        F.min("discarded_at").alias("first_at"),
        F.max(newest).alias("newest"),
    )
    same_error = Window.partitionBy("topic", "status", "error")
    with_error = F.flatten(F.collect_list("subscription_ids").over(same_error))
    judged = alike.select(
        "*",
        F.size("subscription_ids").cast("bigint").alias("subscriptions"),
        F.count(F.lit(1)).over(same_error).alias("shapes"),
        F.size(F.array_distinct(with_error)).alias("subscriptions_with_error"),
    )
    return (
        judged.select(
            "topic",
            "status",
            "error",
            "shape",
            _pattern().alias("pattern"),
            "messages",
            "subscriptions",
            "shapes",
            "first_at",
            F.col("newest.discarded_at").alias("last_at"),
            F.col("newest.message_id").alias("example_id"),
            F.col("newest.subscription").alias("example_subscription"),
            F.col("newest.reason").alias("example_reason"),
        )
        # Order by all columns, so that the same input always gives the same clusters.
        .orderBy(F.desc("messages"), "topic", "status", "error", "shape")
        .limit(CLUSTERS_MAX)
    )


def _pattern() -> Column:
    one_shape = F.col("shapes") == 1
    one_subscription = F.col("subscriptions_with_error") == 1
    return (
        F.when(one_shape & ~one_subscription, FailurePattern.ONE_SHAPE.value)
        .when(one_subscription & ~one_shape, FailurePattern.ONE_SUBSCRIPTION.value)
        .otherwise(FailurePattern.MIXED.value)
    )


def masked(reason: Column) -> Column:
    """Return a reason in which the parts that vary (times, addresses, numbers) are replaced."""
    replaced = reduce(lambda text, mask: F.regexp_replace(text, *mask), _MASKS, reason)
    return F.left(F.trim(replaced), F.lit(ERROR_LENGTH_MAX))


def _text(body_hex: Column) -> Column:
    return F.unhex(body_hex).cast("string")


def _shape(body_hex: Column, size: Column) -> Column:
    """Return the sorted keys of a JSON object in braces. For another body, return a word.

    The words are empty, large, array and other.
    """
    text = _text(body_hex)
    keys = F.json_object_keys(text)
    # Require a brace at the end of the body, because Spark reads the keys of a JSON object even if
    # other text follows the object.
    whole = F.regexp_like(text, F.lit(r"\}\s*\z"))
    listed = F.concat(F.lit("{"), F.array_join(F.sort_array(keys), ", "), F.lit("}"))
    # Replace zero characters: a key may contain "\u0000", and PostgreSQL cannot store it.
    storable = F.regexp_replace(listed, r"\x00", "\N{REPLACEMENT CHARACTER}")
    return (
        F.when(size == 0, "empty")
        .when(body_hex.isNull(), "large")
        .when(keys.isNotNull() & whole, F.left(storable, F.lit(SHAPE_LENGTH_MAX)))
        .when(F.json_array_length(text).isNotNull(), "array")
        .otherwise("other")
    )
