"""Simulates what a subscription would have sent. Input columns: `spark.schemas.MESSAGES`.

Each task checks its input in Arrow batches, and returns sums by the second. Then one task gets a
row for each second, in order, and simulates the queue.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own documents use this name
from pyspark.sql.pandas.types import to_arrow_schema

from app.domain.catalogue.filters import Filter
from app.domain.catalogue.topic import Topic
from app.domain.message import Message, Partition, Record
from app.filtering.bodies import ParsedBodies
from app.filtering.matching import FilterChain
from app.schemas.messages import reading
from spark.batches import Batches, batch_of
from spark.schemas import ARRIVALS
from spark.transforms.differing import DifferingSamples, Row

_ARRIVALS: Final = to_arrow_schema(ARRIVALS, timezone="UTC")
_SUMMED: Final = ("read", "matched", "present", "added", "size")
_MINUTE: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedMessages:
    """The messages that a simulation checks, and the filters that it uses.

    Attributes:
        topic: The name of the topic.
        source: The topic as it is now. If it is given, filters use the JSON form of Avro messages.
        since_ms: The start of the time range, in milliseconds since the epoch.
        until_ms: The end of the time range. Messages at the end are left out.
        proposed: The proposed filters.
        present: The current filters.
    """

    topic: str
    source: Topic | None = None
    since_ms: int
    until_ms: int
    proposed: tuple[Filter, ...] = ()
    present: tuple[Filter, ...] = ()

    @property
    def differs(self) -> bool:
        """Whether the proposed and the current filters are different."""
        return self.proposed != self.present


def arrivals(messages: DataFrame, judged: JudgedMessages) -> DataFrame:
    """Return how many messages of each second the filters match (columns `ARRIVALS`).

    Records for only one subscription are copies, so they are not counted. If several tasks have
    messages of a second, there are several rows for this second. `by_second` adds them.
    """
    in_time = F.col("timestamp_ms").between(judged.since_ms, judged.until_ms - 1)
    return messages.where(in_time).mapInArrow(_judging(judged), ARRIVALS)


def by_second(found: DataFrame) -> DataFrame:
    """Return the counts of all tasks (columns `ARRIVALS`), added up to one row for each second.

    Seconds without messages have no row. The column `differing` is left out.
    """
    return found.groupBy("second").agg(*(F.sum(name).alias(name) for name in _SUMMED))


def queued(seconds: DataFrame, capacity: float, *, origin: int) -> DataFrame:
    """Return the rows of `seconds`, each with the state of the simulated queue after that second.

    Further columns:
    * backlog: how many messages wait.
    * empty: when the queue would be empty if no more messages arrived.
    * period: how many times the queue was empty before.

    `capacity` is in messages per second. `origin` is any second near the seconds of the rows. See
    `app.domain.insight.simulation`.
    """
    so_far = Window.orderBy("second").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    # `ahead` is the backlog if messages could be sent before they arrive. Its lowest value so far
    # says how many messages would have been sent too early. This value is subtracted.
    served = (F.col("second") - origin) * capacity
    ahead = seconds.withColumn("ahead", F.sum("matched").over(so_far) - served)
    least = F.min(F.col("ahead") - F.col("matched")).over(so_far)
    backlog = F.greatest(F.col("ahead") - least, F.col("matched").cast("double"))
    waiting = ahead.withColumn("backlog", backlog).drop("ahead")
    begins = F.when(F.col("backlog") <= F.col("matched"), 1).otherwise(0)
    return waiting.withColumn("period", F.sum(begins).over(so_far)).withColumn(
        "empty", F.col("second") + F.col("backlog") / capacity
    )


def by_minute(waiting: DataFrame) -> DataFrame:
    """Return the rows that `queued` has returned, combined to one row for each minute."""
    minute = F.timestamp_seconds(F.col("second") - F.pmod("second", F.lit(_MINUTE)))
    return waiting.groupBy(minute.alias("minute")).agg(
        *(F.sum(name).alias(name) for name in _SUMMED),
        F.max("matched").alias("peak"),
        F.max("backlog").alias("backlog"),
    )


def longest(waiting: DataFrame) -> DataFrame:
    """Return the largest backlog, when it was largest, and when the queue was empty again.

    If several backlogs are equally large, return the first one.
    """
    return (
        waiting.groupBy("period")
        .agg(
            F.max("backlog").alias("backlog"),
            F.max_by("second", F.struct("backlog", -F.col("second"))).alias("second"),
            F.max("empty").alias("drained"),
        )
        .orderBy(F.desc("backlog"), "second")
        .select("backlog", "second", "drained")
        .limit(1)
    )


def _judging(judged: JudgedMessages) -> Callable[[Batches], Batches]:
    def judge(batches: Batches) -> Batches:
        proposed = FilterChain(judged.proposed, ParsedBodies())
        present = FilterChain(judged.present, ParsedBodies())
        if not judged.differs:
            present = proposed
        message_of = reading(judged.source) if judged.source else Message
        found: dict[int, list[int]] = defaultdict(lambda: [0] * len(_SUMMED))
        differing = DifferingSamples()
        for batch in batches:
            columns = (batch.column(name).to_pylist() for name in _READ)
            for values in zip(*columns, strict=True):
                message = message_of(*_record(values, judged.topic))
                if message.record_target is None:
                    counts = found[values[2] // 1_000]
                    wanted, is_now = _count(counts, message, proposed=proposed, present=present)
                    if wanted != is_now:
                        differing.see(message, is_added=wanted)
        yield batch_of(_rows(found, differing), _ARRIVALS)

    return judge


_READ: Final = ("partition", "offset", "timestamp_ms", "key", "value", "headers")


def _record(values: Sequence[Any], topic: str) -> tuple[Record, Partition]:
    index, offset, timestamp_ms, key, body, headers = values
    pairs = [(each["key"].encode(), each["value"] or b"") for each in headers or ()]
    return Record(offset, timestamp_ms, key, body, pairs), Partition(topic, index)


def _count(
    counts: list[int], message: Message, *, proposed: FilterChain, present: FilterChain
) -> tuple[bool, bool]:
    """Count a message; return whether the proposed and the current filters match it."""
    is_wanted = proposed.wants(message)
    is_now = is_wanted if present is proposed else present.wants(message)
    counts[0] += 1
    counts[1] += is_wanted
    counts[2] += is_now
    counts[3] += is_wanted and not is_now
    counts[4] += len(message.body or b"") if is_wanted else 0
    return is_wanted, is_now


def _rows(
    found: Mapping[int, Sequence[int]], differing: DifferingSamples
) -> Iterator[tuple[int | Sequence[Row] | None, ...]]:
    """Yield one row for each second. The first row also has all examples of differences."""
    differ: Sequence[Row] | None = differing.rows() or None
    for second, counts in found.items():
        yield second, *counts, differ
        differ = None
