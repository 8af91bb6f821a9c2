"""Computes how long messages took to reach their subscribers.

Input columns: `spark.schemas.TRACED`. Trace entries are shuffled once, so that all entries of a
message are in one task. After that, each task has only a few sums and estimates of percentiles for
each subscription.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own documents use this name

from app.domain.job import JobScope
from app.domain.latency import Figure, LatencyPart

# The accuracy of percentiles: among this many messages, the rank of a percentile is wrong by at
# most one. For fewer messages, percentiles are exact.
_ACCURACY: Final = 10_000
_PERCENTILES: Final = {Figure.P50: 0.5, Figure.P95: 0.95, Figure.P99: 0.99}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_MESSAGE: Final = ("subscription_id", "partition", "offset")
_NAMES: Final = ("topic", "subscription_id", "subscription")
_COUNTS: Final = ("messages", "delivered", "discarded", "unknown", "resent", "attempts", "within")


def fates(entries: DataFrame, scope: JobScope) -> DataFrame:
    """Return one row for each message that was finished in the time of `scope`.

    After a crash, a message may have several ends. Then the first end counts. All attempts up to
    this end belong to the message, whichever worker made them. Time that a message spent neither in
    the log nor in attempts counts as waiting.
    """
    is_end = F.col("status").isin("SUCCESS", "DISCARDED")
    first_end = F.min(F.when(is_end, F.col("at"))).over(Window.partitionBy(*_MESSAGE))
    start, end = ((moment - _EPOCH) // _MICROSECOND for moment in (scope.start, scope.end))
    kept = (
        entries.withColumn("ended", first_end)
        .where((F.col("ended") >= start) & (F.col("ended") < end) & (F.col("at") <= F.col("ended")))
        # Remove equal trace entries, because the stream may contain the same pack twice.
        .distinct()
    )
    summed = kept.groupBy(*_NAMES, "partition", "offset").agg(*_sums())
    return summed.select(*_NAMES, "delivered", "resent", "attempts", _is_known(), *_times())


def by_subscription(fates_known: DataFrame, slo: timedelta | None) -> DataFrame:
    """Return, for each subscription, counts of messages, and statistics of each part of their time.

    `slo` is the time in which messages should be delivered. The result has the columns of the
    database table.
    """
    counts = fates_known.groupBy(*_NAMES).agg(*_counted(slo), *_statistics())
    percentiles = [
        F.col(f"{part}_percentiles")[number].alias(f"{part}_{figure}_us")
        for part in LatencyPart
        for number, figure in enumerate(_PERCENTILES)
    ]
    means = [f"{part}_{figure}_us" for part in LatencyPart for figure in (Figure.MEAN, Figure.MAX)]
    return counts.select(*_NAMES, *_COUNTS, *means, *percentiles)


def _sums() -> Sequence[Column]:
    is_first = F.col("attempt") == 1
    spent = F.coalesce("took", F.lit(0)) + F.coalesce("waited", F.lit(0)) + F.col("queued")
    has_ended = F.col("at") == F.col("ended")
    attempts = F.greatest(F.count_if(F.col("status") != "DISCARDED"), F.max("attempt"))
    return (
        F.max("ended").alias("ended"),
        F.min(F.when(is_first, F.col("at") - spent)).alias("published"),
        F.min(F.when(is_first, F.col("queued"))).alias("queued"),
        F.coalesce(F.sum("took"), F.lit(0)).alias("took"),
        F.coalesce(F.sum("connect"), F.lit(0)).alias("connect"),
        F.bool_or((F.col("status") == "SUCCESS") & has_ended).alias("delivered"),
        F.bool_or("resent").alias("resent"),
        attempts.cast("bigint").alias("attempts"),
    )


def _is_known() -> Column:
    """Return a condition: the time of a message can be compared with the SLO.

    A discarded message without an attempt can be compared: it counts as later than the SLO.
    """
    untried = ~F.col("delivered") & (F.col("attempts") == 0)
    return (F.col("published").isNotNull() | untried).alias("known")


def _times() -> Sequence[Column]:
    """Return the parts of the time of a message (`LatencyPart`), in microseconds.

    They are NULL if the message was not delivered, was sent again on request, or has no known time
    of publication.
    """
    timed = F.col("delivered") & ~F.col("resent") & F.col("published").isNotNull()
    total = F.col("ended") - F.col("published")
    parts = {
        LatencyPart.TOTAL: total,
        LatencyPart.QUEUED: F.col("queued"),
        # Use zero if the difference is negative. It can be negative, because two workers may have
        # made attempts at the same time.
        LatencyPart.WAITED: F.greatest(total - F.col("queued") - F.col("took"), F.lit(0)),
        LatencyPart.CONNECT: F.col("connect"),
        LatencyPart.SUBSCRIBER: F.col("took") - F.col("connect"),
    }
    return [F.when(timed, parts[part]).alias(part) for part in LatencyPart]


def _counted(slo: timedelta | None) -> Sequence[Column]:
    own = ~F.col("resent")
    within = F.lit(None).cast("bigint")
    if slo is not None:
        within = F.count_if(F.col(LatencyPart.TOTAL) <= slo // _MICROSECOND)
    return (
        F.count_if(own).alias("messages"),
        F.count_if(own & F.col("delivered")).alias("delivered"),
        F.count_if(own & ~F.col("delivered")).alias("discarded"),
        F.count_if(own & ~F.col("known")).alias("unknown"),
        F.count_if("resent").alias("resent"),
        F.sum(F.when(own, F.col("attempts")).otherwise(0)).alias("attempts"),
        within.alias("within"),
    )


def _statistics() -> Sequence[Column]:
    shares = list(_PERCENTILES.values())
    return [
        figure
        for part in LatencyPart
        for figure in (
            F.round(F.avg(part)).cast("bigint").alias(f"{part}_{Figure.MEAN}_us"),
            F.max(part).alias(f"{part}_{Figure.MAX}_us"),
            F.percentile_approx(part, shares, _ACCURACY).alias(f"{part}_percentiles"),
        )
    ]
