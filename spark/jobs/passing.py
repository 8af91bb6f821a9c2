"""Reads messages that no subscription discarded, to compare the discarded messages with them."""

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from app.domain.errors import LogUnavailableError
from app.domain.message import HEADER_ID, HEADER_TARGET
from app.log.ends import spans_near
from spark.records import messages
from spark.transforms.fields import features_of
from spark.work import Work

# The maximum number of topics whose discarded messages are compared with other messages. The topics
# with the largest groups of similar failures are chosen.
TOPICS_MAX: Final = 5
# The maximum number of messages that are read from each partition before the first failure, and the
# same number after it.
NEAR: Final = 1_000

_ID: Final = HEADER_ID.decode("ascii")
_TARGET: Final = HEADER_TARGET.decode("ascii")
_COLUMNS: Final = StructType(
    [
        StructField("topic", StringType(), nullable=False),
        StructField("message_id", StringType()),
        StructField("features", ArrayType(StringType()), nullable=False),
    ]
)


def near_failures(session: SparkSession, work: Work, clusters: DataFrame) -> DataFrame:
    """Return messages of the log, discarded or not, that were published near the first failures.

    In each topic, these are messages near the time at which its largest group of similar failures
    began. The columns are `topic`, `message_id` and `features`. The result has no rows if the log
    cannot be reached.
    """
    begun = F.unix_millis("first_at")
    worst = clusters.groupBy("topic").agg(
        F.max("messages").alias("messages"), F.max_by(begun, "messages").alias("begun_ms")
    )
    worst = worst.orderBy(F.desc("messages"), "topic").limit(TOPICS_MAX)
    times = {row.topic: row.begun_ms for row in worst.select("topic", "begun_ms").collect()}
    try:
        near = spans_near(work.database_url, times, work.log, at_most=NEAR)
    except LogUnavailableError as exc:
        work.progress.report(f"Failing messages are not compared with others: {exc.message}")
        near = {}
    url = work.database_url
    found = [
        messages(session, url, log=work.log, spans=spans).withColumn("topic", F.lit(topic))
        for topic, spans in near.items()
    ]
    if not found:
        return session.createDataFrame([], _COLUMNS)
    named = reduce(DataFrame.unionByName, found).select(
        "topic",
        _header(_ID).cast("string").alias("message_id"),
        _header(_TARGET).alias("target"),
        features_of(F.col("value").cast("string")).alias("features"),
    )
    # Leave out targeted records, which are for only one subscription, because they are copies of
    # other messages.
    return named.where(F.col("target").isNull()).select(*_COLUMNS.names)


def passing(near: DataFrame, discards: DataFrame) -> DataFrame:
    """Return the messages of `near` that no subscription discarded.

    The columns are `topic` and `features`.
    """
    failed = discards.select("topic", "message_id").distinct()
    passed = near.join(failed, ["topic", "message_id"], "left_anti")
    return passed.select("topic", "features")


def _header(name: str) -> Column:
    named = F.filter("headers", lambda header: header["key"] == name)
    return F.try_element_at(named, F.lit(1))["value"]
